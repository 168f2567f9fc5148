"""Mixes the distributions of all branches.

Shape letters: R branches, w nodes of a draft's level, H width, V vocabulary of the target.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding import formulas
from mmspec_torch.network.decoder import LanguageModel


class Ensemble:
    """Implements `mmspec.decoding.branch_sequence.Mixture` by averages (IbED, section 3.1)."""

    def __init__(self, language: LanguageModel, branches: int, vocabulary: int) -> None:
        """vocabulary: V; tokens that only the draft model has are ignored."""
        self._language, self._branches = language, branches
        self._shared = min(vocabulary, language.config.vocab_size)
        self._missing = vocabulary - self._shared

    def logits(self, weights: Tensor, record: list[Tensor], last: Tensor) -> Tensor:
        """Return the mixture's logits [w, v] at outputs [R * w, H], of v ids that both models have.

        weights: [R].  record: with several branches, their probabilities [R * w, v] are
        appended to it.
        """
        logits = self._language.logits(last)[:, : self._shared]
        if self._branches == 1:
            return logits
        record.append(torch.softmax(logits, dim=-1, dtype=torch.float32))
        # torch itself, as the array API's checks would cost more than the mixture.
        mixed: Tensor = formulas.mix(torch, weights, record[-1].view(self._branches, -1))
        return mixed.view(-1, self._shared).log()

    def padded(self, q: Tensor) -> Tensor:
        """Pad probabilities to [..., V]: tokens that the draft model lacks get 0."""
        return F.pad(q, (0, self._missing)) if self._missing else q
