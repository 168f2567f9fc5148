"""Sequences whose rounds are replayed.

Shape letters: R branches, m rows of one forward, H width.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import finalize

from torch import Tensor

from mmspec.decoding.contents import Projection
from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.feeding import Columns
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.seeing_model import Sequences
from mmspec.decoding.tree import Tree
from mmspec_torch.device.cuda_graphs import Capture, TimedCapture
from mmspec_torch.device.framework import TorchDraft
from mmspec_torch.graphs.replays import DraftReplays, StaticCache, TargetReplays
from mmspec_torch.network.decoder import LanguageModel
from mmspec_torch.sequence.branches import TorchBranches, TorchState
from mmspec_torch.sequence.target import TorchTarget

ROOM = 4
"""The most columns of caches that no sequence uses, in steps of a `StaticCache`."""
T = TypeVar("T")


class ReplayedTarget(TorchTarget):
    """A target that replays forwards of few rows."""

    def __init__(
        self,
        sequences: "ReplayedSequences",
        language: LanguageModel,
        place: Projection[Tensor],
        sampling: Sampling,
        exact: ExactRows | None,
    ) -> None:
        self._replays = sequences.lend(self, TargetReplays, 1, exact is not None)
        super().__init__(language, place, sampling, exact, self._replays.cache)

    def _forward(self, x: Tensor, columns: Columns) -> Tensor:
        output = self._replays.feed(x, columns, self._row, self._captured_layers)
        return super()._forward(x, columns) if output is None else output


class ReplayedBranches(TorchBranches):
    """Branches that replay chains."""

    def __init__(
        self,
        sequences: "ReplayedSequences",
        language: LanguageModel,
        place: Projection[Tensor],
        count: int,
        vocabulary: int,
        sampling: Sampling,
        tree: Tree | None,
        *,
        probabilities: bool,
    ) -> None:
        settings = vocabulary, sampling, probabilities
        self._replays = sequences.lend(self, DraftReplays, count, *settings)
        arguments = language, place, count, vocabulary, sampling, tree
        super().__init__(*arguments, probabilities=probabilities, cache=self._replays.cache)

    def _new_draft(
        self, state: TorchState, gamma: int, tree: Tree | None, weights: Tensor, noise: Noise
    ) -> DeviceDraft[Tensor]:
        chain = self._rows[0], state, gamma, weights, noise, self._choose
        drafted = None if tree else self._replays.chain(*chain)
        if drafted is None:
            return super()._new_draft(state, gamma, tree, weights, noise)
        ids, q = drafted
        probabilities = self._ensemble.pad(q) if self._probabilities else None
        return TorchDraft(ids, gamma, branch_probabilities=probabilities)

    def _choose(self, last: Tensor, weights: Tensor, keys: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the token [1] after outputs [R, H], and the branches' probabilities."""
        record: list[Tensor] = []
        return self._sampler.tokens(self._ensemble.logits(weights, record, last), keys), record


class ReplayedSequences(Sequences[Tensor]):
    """Lends replays to sequences, one to each that is open, so that captures are reused.

    They are for CUDA: elsewhere a kernel costs little to enqueue, and attending to unused columns
    would cost more.
    """

    def __init__(self, language: LanguageModel, capture: Capture) -> None:
        self._language = language
        self._capture = TimedCapture(capture, language.device)
        self.free: dict[Any, Hashable] = {}
        """The latest replays that no sequence uses, with type, rows and settings."""

    @property
    def setup_seconds(self) -> float:
        """Seconds so far spent on captures."""
        return self._capture.seconds

    def target(self, *arguments: Any) -> TorchTarget:
        """Open a target that replays."""
        return ReplayedTarget(self, *arguments)

    def branches(self, *arguments: Any, probabilities: bool) -> TorchBranches:
        """Open branches that replay."""
        return ReplayedBranches(self, *arguments, probabilities=probabilities)

    def lend(self, owner: object, kind: Callable[..., T], rows: int, *settings: Hashable) -> T:
        """Lend a replay of a kind until `owner` is garbage-collected."""
        key = kind, rows, *settings
        latest = reversed(list(self.free))  # of a copy: other owners can end meanwhile
        loan: T | None = next((each for each in latest if self.free.get(each) == key), None)
        if loan is None or self.free.pop(loan, None) is None:
            cache = StaticCache(self._language, rows, self._capture)
            loan = kind(self._language, cache, *settings)
        finalize(owner, _take_back, self.free, loan, key).atexit = False
        return loan


def _take_back(free: dict[Any, Hashable], loan: Any, key: Hashable) -> None:
    """Add a loan whose owner has ended; earlier ones stay as far as all of them have ROOM."""
    free[loan], room = key, ROOM * StaticCache.step
    for each in reversed(list(free)):
        columns = max(each.cache.columns, StaticCache.step)
        if each is loan or columns <= room:
            room -= columns
        else:
            free.pop(each, None)
