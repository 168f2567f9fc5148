"""Drafts a chain, with all its tokens and branches, as one fixed sequence of kernels.

Shape letters: R branches, k drafted tokens, p columns pending, V vocabulary, H width.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from mmspec.decoding.noise import Noise
from mmspec_torch.graphs.capture import Capture, Outputs
from mmspec_torch.graphs.static_form import Frame, send
from mmspec_torch.network.decoder import LanguageModel

NUMBERS = 256
"""The most numbers that one round uploads to the device."""


Choose = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, list[Tensor]]]
"""Function from outputs [R, H], weights [R] and keys [1, 2] to the next token [1] and a list.

The list contains the branches' probabilities [R, V]; with one branch it is empty."""


class Pending(NamedTuple):
    """The tokens that a draft feeds first, with their columns and positions."""

    tokens: Sequence[int]
    """[p] tokens not fed yet, the same in every row."""
    columns: int
    """Number of columns of the sequence, including the pending ones."""
    positions: Sequence[int]
    """[R] the rotary position that follows each row."""
    mask: Tensor | None
    """Mask [R, 1, 1, any] that hides padding; later columns are visible."""


class StaticDrafter:
    """The static form of a drafter: a cache of R branches, and captured drafts."""

    def __init__(self, language: LanguageModel, rows: int, capture: Capture) -> None:
        device = language.device
        self._frame, self._rows = Frame(language, rows, capture), rows
        self._numbers = self._frame.integers(NUMBERS)
        self._blend = torch.zeros(rows, device=device)
        self._shade = torch.zeros(rows, 1, 1, 0, device=device, dtype=language.dtype)
        self._mask: Tensor | None = None
        self.cache = self._frame.cache

    def chain(
        self, pending: Pending, k: int, blend: Tensor, noise: Noise, choose: Choose
    ) -> tuple[Tensor, Tensor]:
        """Draft k tokens; returns ids [k] and probabilities [k, R, V], or [0] with one branch.

        blend: weights [R]. choose: must depend only on its arguments and on constants.
        """
        width = self._frame.reach(pending.columns + k)
        start, count = pending.columns - len(pending.tokens), len(pending.tokens)
        keys = chain.from_iterable(noise.keys(k))
        send((start, *pending.tokens, *pending.positions, *keys), self._numbers)
        self._blend.copy_(blend)
        self._hide(pending.mask)
        ids, q = self._frame.run((k, count, width), lambda: self._forward(k, count, width, choose))
        return ids, q

    def _hide(self, mask: Tensor | None) -> None:
        """Copy the padding mask to its buffer, if it has changed."""
        columns = self.cache.columns
        moved = columns != self._shade.shape[-1]
        if moved:
            self._shade = self._shade.new_zeros(self._rows, 1, 1, columns)
        if moved or mask is not self._mask:
            self._shade.zero_()
            if mask is not None:
                self._shade[..., : mask.shape[-1]].copy_(mask[..., :columns])
            self._mask = mask

    def _forward(self, k: int, count: int, width: int, choose: Choose) -> Outputs:
        frame, language = self._frame, self._frame.language
        start, tokens, following, keys = self._unpacked(k, count)
        x = language.embed(tokens).repeat(self._rows, 1)
        columns = start + frame.count(count)
        positions = following.unsqueeze(1) - count + frame.count(count)
        shade = self._shade if self._rows > 1 else None
        ids: list[Tensor] = []
        record: list[Tensor] = []
        for node in range(k):
            if ids:
                x = language.embed(ids[-1].expand(self._rows))
                columns, positions = columns[-1:] + 1, positions[:, -1:] + 1
            x = language.forward(x, frame.step(width, columns, positions, shade))
            last = x.view(self._rows, len(columns), -1)[:, -1]
            token, q = choose(last, self._blend, keys[node : node + 1])
            ids.append(token)
            record += q
        return torch.cat(ids), torch.stack(record) if record else ids[0][:0]

    def _unpacked(self, k: int, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Split the uploaded numbers: start [1], tokens [p = count], positions [R], keys [k, 2]."""
        sizes = [1, count, self._rows, 2 * k]
        start, tokens, following, keys = torch.split(self._numbers[: sum(sizes)], sizes)
        return start, tokens, following, keys.view(k, 2).to(torch.int32)
