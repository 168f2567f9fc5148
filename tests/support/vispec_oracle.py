"""ViSpec's head by transformers' layer: the published layout's forward, every slot anew, no cache.

Shape letters: n columns, N columns of an image, C queries, H width, D head size.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from support.transformers_oracle import decoder_layer, outputs


class ViSpec:
    """One head over one prompt whose last token is fed to nothing yet."""

    def __init__(
        self,
        config: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        embeddings: Tensor,
        states: Tensor,
        image: Sequence[int],
    ) -> None:
        """embeddings: [n, H].  states: [n - 1, H].  image: [n] its number, -1 for text."""
        self._tensors, self._layer = tensors, decoder_layer(config, tensors)
        self._embeddings, self._states = embeddings, states
        self._rows: list[Tensor] = []
        self._places: list[int] = []
        self._view = torch.zeros_like(embeddings[0])
        self._read(image)

    def feature(self, drafted: Tensor) -> Tensor:
        """The layer's output [H] after drafted tokens, given by their embeddings [k, H]."""
        rows, places, slots = self._rows, self._places, len(self._states)
        output = outputs(self._layer, rows, places)[-1]
        for depth, embedding in enumerate(drafted):
            rows = [*rows, self._pair(embedding, output)]
            places = [*places, slots + depth]
            output = outputs(self._layer, rows, places)[-1]
        return output

    def _read(self, image: Sequence[int]) -> None:
        """Slot after slot; an image's slots are those whose next column belongs to it."""
        for number, group in groupby(range(len(self._states)), lambda slot: image[slot + 1]):
            first, *_ = slots = [*group]
            if number < 0:
                pairs = [(self._embeddings[slot + 1], self._states[slot]) for slot in slots]
                self._rows += [self._pair(*pair) for pair in pairs]
                self._places += slots
                continue
            end = first + len(slots)
            vectors = self._vectors(self._embeddings[first + 1 : end + 1])
            self._rows += list(vectors[:-1])
            self._places += range(end - len(vectors) + 1, end)
            self._view = vectors[-1]

    def _vectors(self, embeddings: Tensor) -> Tensor:
        """[C, H]: each head of each query attends to the image [N, H]."""
        queries = self._tensors["imadpt.q"]
        keys, values = (
            self._linear(f"imadpt.{part}_proj", embeddings).unflatten(-1, queries.shape[1:])
            for part in "kv"
        )
        scores = torch.einsum("chd,nhd->chn", queries, keys) / queries.shape[-1] ** 0.5
        seen = torch.einsum("chn,nhd->chd", scores.softmax(-1), values)
        return self._linear("imadpt.o_proj", seen.flatten(1))

    def _pair(self, embedding: Tensor, state: Tensor) -> Tensor:
        state = self._linear("img_fc", torch.cat([state, self._view]))
        return self._linear("fc", torch.cat([embedding, state]))

    def _linear(self, path: str, x: Tensor) -> Tensor:
        return F.linear(x, self._tensors[f"{path}.weight"], self._tensors.get(f"{path}.bias"))
