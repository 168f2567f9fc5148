"""Mixes the distributions of all branches.

Shape letters: R branches, w nodes of a draft's level, H width, V vocabulary of the target.
"""

import mlx.core as mx

from mmspec.decoding import formulas
from mmspec_mlx.network.decoder import LanguageModel


class Ensemble:
    """Implements `mmspec.decoding.branch_sequence.Mixture` by averages (IbED, section 3.1)."""

    def __init__(self, language: LanguageModel, branches: int, vocabulary: int) -> None:
        """vocabulary: V; tokens that only the draft model has are ignored."""
        self._language, self._branches = language, branches
        self._shared = min(vocabulary, language.config.vocab_size)
        self._missing = vocabulary - self._shared
        xp = language.kernels.arrays

        def mixed(weights: mx.array, logits: mx.array) -> tuple[mx.array, mx.array]:
            q = formulas.softmax(xp, logits.astype(mx.float32))
            mixture = mx.array(formulas.mix(xp, weights, q.reshape(branches, -1)))
            return q, mx.log(mixture.reshape(-1, self._shared))

        self._mixed = language.kernels.compiled(mixed)

    def logits(self, weights: mx.array, record: list[mx.array], last: mx.array) -> mx.array:
        """Return the mixture's logits [w, v] at outputs [R * w, H], of v ids that both models have.

        weights: [R].  record: with several branches, their probabilities [R * w, v] are
        appended to it.
        """
        logits = self._language.logits(last)[..., : self._shared]
        if self._branches == 1:
            return logits
        q: mx.array
        mixture: mx.array
        q, mixture = self._mixed(weights, logits)
        record.append(q)
        return mixture

    def padded(self, q: mx.array) -> mx.array:
        """Pad probabilities to [..., V]: tokens that the draft model lacks get 0."""
        return mx.pad(q, [*[(0, 0)] * (q.ndim - 1), (0, self._missing)])
