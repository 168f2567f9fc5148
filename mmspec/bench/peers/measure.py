"""All arms in one run: started one after another, asked in turn, medians and ranges."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mmspec.bench.peers.catalogue import PeerArm
from mmspec.bench.peers.renamed import with_hub_names
from mmspec.bench.peers.wire import Question, Reply, Setup
from mmspec.bench.peers.worker import PeerError, Worker
from mmspec.bench.prompts import Prompt
from mmspec.bench.speed import Progress, Spread, rotated
from mmspec.images import Picture

Start = Callable[[Sequence[str]], Worker]


@dataclass(slots=True)
class Running:
    """One arm while it is measured."""

    arm: PeerArm
    worker: Worker | None = None
    reason: str | None = None
    """Why it cannot run at all; None while it does."""
    described: dict[str, Any] = field(default_factory=dict)
    load_seconds: float | None = None
    first_token_seconds: float | None = None
    """From the start of the process to the first token of its first answer."""
    replies: dict[str, dict[int, Reply]] = field(default_factory=dict)
    """By set of questions and turn."""
    refusals: dict[str, str] = field(default_factory=dict)
    """By set of questions, why it answers none of them."""

    def ask(self, label: str, turn: int, question: Question) -> None:
        """Ask, and keep the reply; after a refusal the set is asked no more."""
        if self.worker is None or label in self.refusals:
            return
        try:
            reply = self.worker.ask(question)
        except PeerError as error:
            self.refusals[label] = str(error)
            return
        if self.first_token_seconds is None and self.load_seconds is not None:
            self.first_token_seconds = self.load_seconds + reply.first_token_seconds
        self.replies.setdefault(label, {})[turn] = reply


@dataclass(frozen=True, slots=True)
class Figures:
    """What one arm made of one set of questions."""

    tokens_per_second: Spread
    speed_up: Spread
    """Over the first arm's answer to the same question in the same repetition."""
    first_token_seconds: Spread
    tokens_per_round: float
    identical: int
    """Answers that are the first arm's, token for token."""
    answers: int


@dataclass(frozen=True, slots=True)
class PeerResult:
    """One arm; `figures` or, by the same labels, the reason why there are none."""

    name: str
    load_seconds: float | None
    start_seconds: float | None
    """From the start of the process to the first token."""
    peak_memory_bytes: int
    figures: dict[str, Figures]
    reasons: dict[str, str]
    described: dict[str, Any]


def measure(
    arms: Sequence[PeerArm],
    sets: Mapping[str, Sequence[Question]],
    setup: Setup,
    repeats: int,
    progress: Progress,
    start: Start = Worker,
) -> list[PeerResult]:
    """Start every arm, then let all answer each question in turn, `repeats` times.

    A first answer of every arm to each set warms caches up and counts for the start-up alone.
    Arms are compared with the first one.  What one cannot do becomes its reason and stops no other.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        running = [Running(arm) for arm in arms]
        for each in running:
            progress(f"starting: {each.arm.name}")
            _started(each, setup, folder, start, stack)
            for label, questions in sets.items():
                each.ask(label, -1, questions[0])
        for label, questions in sets.items():
            _interleaved(running, label, questions, repeats, progress)
    return [_result(each, running[0], list(sets)) for each in running]


def _started(running: Running, setup: Setup, folder: Path, start: Start, stack: ExitStack) -> None:
    """Start twice: the first one, which is not counted, fills the file cache."""
    try:
        told = _setup(running.arm, setup, folder)
        _loaded(running.arm, told, start)[0].close()
        running.worker, running.described, running.load_seconds = _loaded(running.arm, told, start)
        stack.callback(running.worker.close)
    except PeerError as error:
        running.reason = str(error)


def _loaded(arm: PeerArm, told: Setup, start: Start) -> tuple[Worker, dict[str, Any], float]:
    worker = start(arm.command)
    try:
        return worker, *worker.load(told)
    except PeerError:
        worker.close()
        raise


def _setup(arm: PeerArm, setup: Setup, folder: Path) -> Setup:
    """What this arm is told: its options, a draft if it drafts, names that it can read."""
    model, draft = Path(setup.model), Path(setup.draft) if setup.draft else None
    if arm.drafts and draft is None:
        raise PeerError("needs a draft: name one with --draft")
    if arm.hub_names:
        model = with_hub_names(model, folder / f"{arm.name} target")
        draft = with_hub_names(draft, folder / f"{arm.name} draft") if draft else None
    used = str(draft) if arm.drafts else None
    return Setup(str(model), used, setup.device, setup.dtype, arm.options)


def _interleaved(
    running: Sequence[Running],
    label: str,
    questions: Sequence[Question],
    repeats: int,
    progress: Progress,
) -> None:
    turns = [question for _ in range(repeats) for question in questions]
    for turn, question in enumerate(turns):
        for each in rotated(running, turn):
            progress(f"{label}, {turn + 1} of {len(turns)}: {each.arm.name}")
            each.ask(label, turn, question)


def _result(running: Running, first: Running, labels: Sequence[str]) -> PeerResult:
    every = [reply for replies in running.replies.values() for reply in replies.values()]
    figures = dict(_figures(running, first, labels))
    return PeerResult(
        running.arm.name,
        running.load_seconds,
        running.first_token_seconds,
        max((reply.peak_bytes for reply in every), default=0),
        figures,
        {
            label: running.reason or running.refusals.get(label, "nothing to compare with")
            for label in labels
            if label not in figures
        },
        running.described,
    )


def _figures(
    running: Running, first: Running, labels: Sequence[str]
) -> Iterator[tuple[str, Figures]]:
    for label in labels:
        replies, others = (each.replies.get(label, {}) for each in (running, first))
        pairs = [(replies[turn], others.get(turn)) for turn in sorted(replies) if turn >= 0]
        if pairs and label not in running.refusals:
            yield label, figures(pairs)


def figures(pairs: Sequence[tuple[Reply, Reply | None]]) -> Figures:
    """Of one arm's replies beside the first arm's; an answer of one token has no speed."""
    rates = [reply.tokens_per_second for reply, _ in pairs]
    ratios = [
        reply.tokens_per_second / other.tokens_per_second
        for reply, other in pairs
        if other and reply.tokens_per_second and other.tokens_per_second
    ]
    return Figures(
        Spread.of([rate for rate in rates if rate] or [0.0]),
        Spread.of(ratios or [0.0]),
        Spread.of([reply.first_token_seconds for reply, _ in pairs]),
        sum(reply.events[-1][0] for reply, _ in pairs) / sum(reply.rounds for reply, _ in pairs),
        sum(other is not None and reply.tokens == other.tokens for reply, other in pairs),
        len(pairs),
    )


def questions(prompts: Sequence[Prompt], folder: Path, max_tokens: int) -> list[Question]:
    """Prompts as workers are asked them, their pictures as files in `folder`."""
    return [
        Question([_part(part, folder) for part in prompt.message.parts], max_tokens)
        for prompt in prompts
    ]


def _part(part: str | Picture, folder: Path) -> dict[str, str]:
    if isinstance(part, str):
        return {"text": part}
    file = folder / f"{part.digest}.png"
    part.image.save(file)
    return {"image": str(file)}
