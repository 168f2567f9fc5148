"""Runs the forwards of targets and drafters kernel by kernel; `mmspec_torch.graphs` replays them.

Shape letters: R branches, m rows of one forward, k drafted tokens, V vocabulary, H width.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

import array_api_compat.torch as xp
from torch import Tensor

from mmspec.decoding.block_attention import whole_blocks
from mmspec.decoding.branch_sequence import BranchState
from mmspec.decoding.contents import Row
from mmspec.decoding.feeding import Columns
from mmspec.decoding.language import deepstack
from mmspec.decoding.noise import Noise
from mmspec_torch.network.attention import Step, tree_mask
from mmspec_torch.network.cache import Cache
from mmspec_torch.network.decoder import LanguageModel
from mmspec_torch.network.rotary import Angles
from mmspec_torch.sequence.padding import Padding

TorchState = BranchState[Tensor, Padding]

Choose = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, list[Tensor]]]
"""Function from outputs [R, H], weights [R] and keys [1, 2] to the next token [1] and a list.

The list contains the branches' probabilities [R, V]; with one branch it is empty.
"""


class Chain(NamedTuple):
    """A chain to draft."""

    row: Row[Tensor]
    """One that holds the tokens that are not fed yet."""
    state: TorchState
    k: int
    blend: Tensor
    """[R] weights of the branches."""
    noise: Noise
    choose: Choose
    """It depends only on its arguments and on constants."""


class TargetExecutor:
    """Runs one target's forwards over its cache."""

    def __init__(self, language: LanguageModel, cache: Cache) -> None:
        self.language, self.cache = language, cache

    def feed(
        self, x: Tensor, columns: Columns, row: Row[Tensor], captured: tuple[int, ...]
    ) -> Tensor:
        """Feed x [m, H]; returns the last layer's output [m, H].

        captured: layers whose outputs are put beside it.
        """
        language, start, end = self.language, columns.first, columns.first + len(x)
        if columns.multiple:
            places = columns.places(xp, language.framework.count, len(x))
            angles = language.rotary.after(row.shift(start), places.own, end)
            layers = self.cache.layers(start, end, whole_blocks(end))
            return language.forward(x, Step(angles, layers, places=places, captured=captured))
        if columns.ancestry:
            visible, depths = columns.ancestry
            angles = language.rotary.after(row.position(start), depths, columns.depth)
            layers, mask = self.cache.layers(start, end), tree_mask(start, visible, x)
            return language.forward(x, Step(angles, layers, mask, captured=captured))
        added = [x[0] for x in deepstack(language, [row], start, end)]
        angles = self._angles(row, start, end)
        return language.follow(x, self.cache, start, angles, deepstack=added, captured=captured)

    def _angles(self, row: Row[Tensor], start: int, end: int) -> Angles:
        """Return the angles of columns, of which those of a draft count up."""
        rotary, first = self.language.rotary, row.position(start)
        if row.counts_up(start, end):
            return rotary.run(first, first + end - start)
        cos, sin = rotary.planes(row.positions(start, end)[None])
        return cos[0], sin[0]


class DrafterExecutor:
    """Holds one drafter's cache; its forwards are run as they come."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache

    def chain(self, request: Chain) -> tuple[Tensor, Tensor] | None:  # noqa: ARG002
        """Draft k tokens at once; returns ids [k] and probabilities [k, R, V], [0] for one branch.

        None if they must be drafted one by one.
        """
        return None


class Executor:
    """Opens the executors of a model's targets and drafters."""

    def __init__(self, language: LanguageModel) -> None:
        self.language = language

    def target(self, owner: object, *, is_exact: bool) -> TargetExecutor:  # noqa: ARG002
        """Return an executor with an empty cache for `owner`, a target."""
        return TargetExecutor(self.language, self.language.new_cache(rows=1))

    def drafter(self, owner: object, rows: int, *settings: Hashable) -> DrafterExecutor:  # noqa: ARG002
        """Return an executor with an empty cache for `owner`, a drafter of so many rows.

        settings: the constants on which its choice of tokens depends.
        """
        return DrafterExecutor(self.language.new_cache(rows))
