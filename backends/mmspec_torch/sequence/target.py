"""The target's sequence: plain decoding, and verification of drafts.

Shape letters: n rows fed or drafted, V vocabulary, H width.
"""

import torch
from torch import Tensor

from mmspec.decoding.contents import Projection
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.feeding import Columns
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.target_sequence import TargetSequence
from mmspec_torch.device.framework import framework
from mmspec_torch.network.decoder import LanguageModel
from mmspec_torch.sequence.contents import embed
from mmspec_torch.sequence.executor import Executor
from mmspec_torch.sequence.hidden_states import Rows


class TorchTarget(TargetSequence[Tensor]):
    """Implements `mmspec.decoding.contract.Target` and, for heads, `HiddenStates`."""

    def __init__(
        self,
        language: LanguageModel,
        place: Projection[Tensor],
        executor: Executor,
        sampling: Sampling,
        exact: ExactRows | None,
    ) -> None:
        """place: returns the rows [N, W] of an image's features."""
        self._language = language
        self._executor = executor.target(self, is_exact=exact is not None)
        cache = self._executor.cache
        super().__init__(framework(language.device), cache, place, sampling, exact)

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings [n, H] of drafted ids [n]."""
        return self._language.embed(ids)

    def project(self, states: Tensor) -> Tensor:
        """Return the logits [n, V] of hidden states [n, H]."""
        return self._language.project(states)

    def _embed_columns(self, start: int, stop: int) -> Tensor:
        return embed(self._language, self._row, start, stop)

    def _forward(self, x: Tensor, columns: Columns) -> Tensor:
        return self._executor.feed(x, columns, self._row, self._captured)

    def _normalised(self, outputs: Tensor) -> Tensor:
        return self._language.states(outputs)

    def _parted(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        width = self._language.config.hidden_size
        # Contiguous, so that the norm computes the bits that it does without captured layers.
        return outputs[:, :width].contiguous(), outputs[:, width:]

    def _new_rows(self, count: int) -> Rows:
        width = count * self._language.config.hidden_size
        return Rows(torch.empty(0, width, device=self._language.device, dtype=self._language.dtype))
