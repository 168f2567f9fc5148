"""The formulas of `mmspec.maths` for one way to sample, each compiled at most once per shape.

Shape letters: R branches, n rows or nodes, k drafted tokens, V vocabulary.
"""

import mlx.core as mx

from mmspec import maths
from mmspec.sampling import Sampling
from mmspec_mlx.kernels import Kernels


class Formulas:
    """What rounds that draw their tokens compute over the vocabulary."""

    def __init__(self, kernels: Kernels, sampling: Sampling) -> None:
        """Compile nothing yet: that is done when shapes are known."""
        xp = kernels.arrays

        def mixed(weights: mx.array, logits: mx.array) -> tuple[mx.array, mx.array]:
            rows = maths.softmax(xp, logits)
            return rows, mx.expand_dims(maths.mix(xp, weights, rows), 0)

        def proposed(mixture: mx.array, draws: mx.array) -> tuple[mx.array, mx.array]:
            q = maths.warp(xp, mixture, sampling)
            return q, maths.draw(xp, q, draws).astype(mx.uint32)

        def warped(logits: mx.array) -> mx.array:
            p: mx.array = maths.warp(xp, maths.softmax(xp, logits), sampling)
            return p

        def judged(
            p: mx.array, q: mx.array, drafted: mx.array, draws: mx.array
        ) -> tuple[mx.array, mx.array]:
            return maths.judge(xp, p, q, drafted, draws)

        def judged_tree(
            p: mx.array, drafted: mx.array, parents: mx.array, draws: mx.array
        ) -> tuple[mx.array, mx.array]:
            return maths.judge_tree(xp, p, drafted, parents, draws)

        def drawn(p: mx.array, draws: mx.array) -> mx.array:
            token: mx.array = maths.draw(xp, p, draws)
            return token

        self.mixed = kernels.compiled(mixed)
        """weights [R], logits [R, V]: what each branch says [R, V], and together [1, V]."""
        self.proposed = kernels.compiled(proposed)
        """mixture [1, V], draws [1]: the q [1, V] that a token [1] is drawn from, and the token."""
        self.warped = kernels.compiled(warped)
        """logits [n, V]: the target's probabilities [n, V]."""
        self.judged = kernels.compiled(judged)
        """p [k + 1, V], q [k, V], drafted [k], draws [k + 1]: accept [k], fallback [k + 1]."""
        self.judged_tree = kernels.compiled(judged_tree)
        """p [n + 1, V], drafted [n], parents [n], draws [n + 1]: accept [n], fallback [n + 1]."""
        self.drawn = kernels.compiled(drawn)
        """p [n, V], draws [n]: tokens [n]."""
