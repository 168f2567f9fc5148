"""A target without weights, which repeats answers that a real model once gave.

Drafters that read no hidden states draft for it: lookup, or a draft model of the same vocabulary.
Its rounds have the tokens that the real model's would have; their seconds mean nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Never

from mmspec.checkpoints.config import ModelConfig
from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.draft import DeviceDraft, Draft, HostDraft
from mmspec.decoding.noise import Noise
from mmspec.decoding.segment import Segment
from mmspec.families.grid import Grid
from mmspec.ground.errors import UsageError
from mmspec.ground.tokens import NO_TOKEN


def _refusal(what: str) -> Callable[..., Never]:
    """A method of a target without weights, which raises UsageError."""

    def refuse(*_: Any, **__: Any) -> Never:
        raise UsageError(f"a target that repeats answers cannot {what}")

    return refuse


@dataclass(frozen=True)
class Places:
    """Implements `Features` by an image's visual positions alone, at which nothing is computed."""

    grid: Grid
    nbytes: int = 0
    pool = _refusal("see pooled images")

    @property
    def positions(self) -> int:
        """The number of visual positions."""
        return self.grid.positions


class Reply(NamedTuple):
    """What the target says after one sequence."""

    sequence: list[int]
    """One id for each position, NO_TOKEN for those of images."""
    tokens: list[int]
    """Those of the answer, then the stop token."""


@dataclass
class ReplayModel:
    """Implements `mmspec.decoding.contract.Model`: says the replies of one conversation."""

    config: ModelConfig
    replies: Sequence[Reply] = ()

    device, dtype, quantize, tower = "no device", "repeated answers", "none", ""
    setup_seconds = 0.0
    encode, open_branches = _refusal("see images"), _refusal("draft")

    def play(self, segments: Iterable[Segment], stop: int) -> None:
        """Say from now on a conversation's answers, each after all before it, and `stop`."""
        replies, sequence = [], list[int]()
        for segment in segments:
            ids = segment.token_ids(NO_TOKEN)
            if segment.is_answer:
                replies.append(Reply(sequence, [*ids, stop]))
            sequence = sequence + ids
        self.replies = replies

    def open_target(self, *_: Any) -> "ReplayTarget":
        """Open an empty sequence, whose next tokens are given, however they were chosen."""
        return ReplayTarget(self)


class ReplayTarget:
    """Implements `mmspec.decoding.contract.Target`; the sequence is all its state."""

    def __init__(self, model: ReplayModel) -> None:
        self._model = model
        self._sequence: list[int] = []
        self._verdict = Verdict([], [], [])

    @property
    def length(self) -> int:
        """Number of positions in the sequence."""
        return len(self._sequence)

    def extend(self, segment: Segment) -> None:
        """Append a segment."""
        self._sequence = self._sequence + segment.token_ids(NO_TOKEN)

    def rewind(self, length: int) -> None:
        """Forget all positions from `length` on."""
        self._sequence = self._sequence[:length]

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:  # noqa: ARG002
        """The answer's token at the depth of every node; raises UsageError without an answer."""
        tokens = self._next_tokens()
        drafted, parents = _nodes(draft)
        depths = [0]
        for parent in parents:
            depths.append(depths[parent + 1] + 1)
        best = [tokens[min(depth, len(tokens) - 1)] for depth in depths]
        self._verdict = Verdict(drafted, parents, best)
        return self._verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes on `path`, then `token`."""
        self._sequence = [*self._sequence, *self._verdict.along(path), token]

    logits, fed_rows = _refusal("give logits"), _refusal("give logits or states")
    hidden_states = _refusal(
        "give hidden states, which this draft reads: draft by lookup or a text model"
    )

    def _next_tokens(self) -> list[int]:
        """The tokens that follow the sequence, the stop token last."""
        for sequence, tokens in self._model.replies:
            reply = self._sequence[len(sequence) :]
            if self._sequence[: len(sequence)] == sequence and tokens[: len(reply)] == reply:
                return tokens[len(reply) :] or tokens[-1:]
        return _refusal("answer this prompt: no answer to it was given")()


def _nodes(draft: Draft | None) -> tuple[list[int], list[int]]:
    """The drafted tokens and the nodes' parents, of a draft of any backend.  Blocks."""
    if isinstance(draft, DeviceDraft):
        parents = None if draft.parents is None else draft.parents.tolist()
        draft = HostDraft(draft.ids.tolist(), parents)
    if not isinstance(draft, HostDraft):
        return [], []
    return draft.tokens, [*range(-1, draft.size - 1)] if draft.parents is None else draft.parents
