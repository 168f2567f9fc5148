"""Runs the forwards of targets and drafters kernel by kernel; `mmspec_torch.graphs` replays them.

Shape letters: R branches, m rows of one forward, k drafted tokens, V vocabulary, H width.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeVar

import array_api_compat.torch as xp
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.block_attention import whole_blocks
from mmspec.decoding.branch_sequence import BranchState
from mmspec.decoding.contents import Row
from mmspec.decoding.feeding import Columns
from mmspec.decoding.language import deepstack
from mmspec.decoding.noise import Noise
from mmspec_torch.network.attention import Step, hiding
from mmspec_torch.network.cache import Cache
from mmspec_torch.network.decoder import LanguageModel
from mmspec_torch.sequence.padding import Padding

TorchState = BranchState[Tensor, Padding]

E = TypeVar("E")

Choose = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, list[Tensor]]]
"""Function from outputs [R, H], weights [R] and keys [1, 2] to the next token [1] and a list.

The list contains the branches' probabilities [R, V]; with one branch it is empty.
"""


class Chain(NamedTuple):
    """A chain to draft."""

    row: Row[Tensor]
    """A row that holds the tokens that are not fed yet."""
    state: TorchState
    k: int
    blend: Tensor
    """[R] weights of the branches."""
    noise: Noise
    choose: Choose
    """It depends only on its arguments and on constants."""


class SequenceExecutor:
    """Holds the cache of one target or drafter, which no other sequence uses meanwhile."""

    def __init__(self, language: LanguageModel, cache: Cache, *_: Hashable) -> None:
        """_: constants on which captured forwards depend."""
        self.language, self.cache = language, cache


class TargetExecutor(SequenceExecutor):
    """Runs one target's forwards; its setting is whether rows are exact."""

    def feed(
        self, x: Tensor, columns: Columns, row: Row[Tensor], captured_layers: tuple[int, ...]
    ) -> Tensor:
        """Feed x [m, H]; returns the last layer's output [m, H].

        captured_layers: those whose outputs are put beside it.
        """
        language, start, end = self.language, columns.first, columns.first + len(x)
        if columns.multiple:
            places = columns.places(xp, language.framework.count, len(x))
            angles = language.rotary.after(row.shift(start), places.row_places, end)
            layers = self.cache.layers(start, end, whole_blocks(end))
            step = Step(angles, layers, places=places, captured_layers=captured_layers)
            return language.forward(x, step)
        if columns.ancestry:
            visible, depths = columns.ancestry
            angles = language.rotary.after(row.position(start), depths, columns.depth)
            layers = self.cache.layers(start, end)
            mask = F.pad(hiding(~visible, x.dtype), (start, 0))  # all before a tree is visible
            return language.forward(x, Step(angles, layers, mask, captured_layers=captured_layers))
        extras = [x[0] for x in deepstack(language, [row], start, end)]
        angles = language.rotary.along(row, start, end)
        inputs = x, self.cache, start, angles
        return language.follow(*inputs, deepstack=extras, captured_layers=captured_layers)


class DrafterExecutor(SequenceExecutor):
    """Drafts with one drafter's cache; its settings are those of its choice of tokens."""

    def chain(self, request: Chain) -> tuple[Tensor, Tensor] | None:  # noqa: ARG002
        """Draft k tokens at once; returns ids [k] and probabilities [k, R, V], [0] for one branch.

        None if they must be drafted one by one.
        """
        return None


class Executor:
    """Opens an executor for each target and drafter of a model."""

    target_type: type[TargetExecutor] = TargetExecutor
    drafter_type: type[DrafterExecutor] = DrafterExecutor
    setup_seconds = 0.0
    """Seconds spent on captures."""

    def __init__(self, language: LanguageModel) -> None:
        self.language = language

    def target(self, owner: object, *, is_exact: bool) -> TargetExecutor:
        """Return an executor for `owner`, a target."""
        return self._open(owner, self.target_type, 1, is_exact)

    def drafter(self, owner: object, rows: int, *settings: Hashable) -> DrafterExecutor:
        """Return an executor for `owner`, a drafter of this many rows."""
        return self._open(owner, self.drafter_type, rows, *settings)

    def _open(self, _: object, kind: Callable[..., E], rows: int, *settings: Hashable) -> E:
        return kind(self.language, self.language.new_cache(rows), *settings)
