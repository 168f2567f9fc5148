"""Measures how well a model sees: asks for facts about synthetic pictures and judges answers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count, islice
from typing import Any

from PIL import Image

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.decoding.exact_rows import ExactFields
from mmspec.ground.errors import UsageError
from mmspec.prompt.conversation import interleaved
from mmspec.prompt.images import Picture, picture_from
from mmspec_bench import Progress
from mmspec_bench.report.markdown import markdown_table
from mmspec_world import CATEGORIES, TASKS, Sample, judge, sample

GREY = (128, 128, 128)
"""Colour (red, green, blue) of blank pictures."""
RETRIED_SEEDS = 8
"""Number of seeds between trials of a task that has asked for no category still needed."""

MakeSample = Callable[[str, int], Sample]
"""Function that makes a task's held-out sample for a seed."""


@dataclass(slots=True)
class Tally:
    """Counts of right and asked facts in one category."""

    samples: int = 0
    """Number of conversations that asked for a fact of the category."""
    asked: int = 0
    right: int = 0

    @property
    def share(self) -> float:
        """Number of right facts divided by that of facts asked for."""
        return self.right / self.asked if self.asked else 0.0


@dataclass(slots=True)
class Score:
    """Counts of right facts by category, and the number of conversations."""

    tallies: dict[str, Tally] = field(default_factory=lambda: {c: Tally() for c in CATEGORIES})
    conversations: int = 0

    @property
    def total(self) -> Tally:
        """The counts of all categories together."""
        tallies = self.tallies.values()
        asked, right = sum(t.asked for t in tallies), sum(t.right for t in tallies)
        return Tally(self.conversations, asked, right)

    def count(self, verdicts: Sequence[tuple[str, bool]]) -> None:
        """Add one conversation's facts, each a category and whether it was right."""
        self.conversations += 1
        for category in {category for category, _ in verdicts}:
            self.tallies[category].samples += 1
        for category, right in verdicts:
            self.tallies[category].asked += 1
            self.tallies[category].right += right

    def as_dict(self) -> dict[str, Any]:
        """Shares and counts, JSON-serializable."""
        shares = {name: asdict(t) | {"share": t.share} for name, t in self.tallies.items()}
        total = {"overall": self.total.share, "conversations": self.conversations}
        return total | {"categories": shares}


@dataclass(frozen=True, slots=True)
class GroundingReport(ExactFields):
    """Scores with the images and, optionally, with grey pictures instead."""

    model: str
    seed: int
    shown: Score
    blanked: Score | None
    provenance: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON-serializable object."""
        return {
            "model": self.model,
            "seed": self.seed,
            "exact": self.exact,
            "exact_mode": self.exact_mode,
            "exact_rows": self.exact_rows,
            "shown": self.shown.as_dict(),
            "blanked": self.blanked.as_dict() if self.blanked else None,
            "provenance": self.provenance,
        }


def held_out(engine: Engine) -> MakeSample:
    """A function that makes held-out samples in the image size of the target.

    Raises UsageError for a target that sees no images.
    """
    vision = engine.target.model.config.vision
    if vision is None:
        raise UsageError(f"{engine.target.name} is text-only: grounding needs a model that sees")
    return lambda task, seed: sample(task, seed, split="held-out", size=vision.image_size)


def grounding(
    engine: Engine,
    make_sample: MakeSample,
    options: Options,
    *,
    samples: int,
    seed: int = 0,
    blank: bool = False,
    progress: Progress,
) -> Score:
    """Ask until every category has been asked for in `samples` conversations.

    The answers are the target's own; a draft only makes them faster.  blank: show mid-grey pictures
    of the same sizes instead.
    """
    score = Score()
    for conversation in needed_samples(make_sample, score, samples, seed):
        score.count(list(verdicts(engine, conversation, options, blank=blank)))
        least = min(tally.samples for tally in score.tallies.values())
        progress(
            f"{score.conversations} conversations, {least} of {samples} in the rarest "
            f"category, {score.total.share:.1%} right"
        )
    return score


def needed_samples(
    make_sample: MakeSample, score: Score, samples: int, seed: int
) -> Iterator[Sample]:
    """Samples of all tasks in turn, except those with no fact of a category still needed.

    The categories of a task are learnt from its samples.
    """
    asks: dict[str, set[str]] = {task: set() for task in TASKS}
    for number, task in ((number, task) for number in count(seed) for task in TASKS):
        wanted = {name for name, tally in score.tallies.items() if tally.samples < samples}
        if not wanted:
            return
        if asks[task] and not asks[task] & wanted and number % RETRIED_SEEDS:
            continue
        conversation = make_sample(task, number)
        categories = {fact.category for turn in conversation.turns for fact in turn.facts}
        asks[task] |= categories
        if categories & wanted:
            yield conversation


def verdicts(
    engine: Engine, conversation: Sample, options: Options, *, blank: bool = False
) -> Iterator[tuple[str, bool]]:
    """Hold one conversation and judge its facts: a category and whether the answer is right."""
    chat = engine.chat(options)
    originals = (picture_from(image) for image in conversation.images)
    pictures = iter([blanked(picture) if blank else picture for picture in originals])
    for turn in conversation.turns:
        message = interleaved(turn.question, list(islice(pictures, turn.images)))
        for _ in chat.send(message):
            pass
        for fact in turn.facts:
            yield fact.category, judge(fact, chat.answer.text)


def blanked(picture: Picture) -> Picture:
    """A mid-grey picture of the same size."""
    return picture_from(Image.new("RGB", picture.image.size, GREY), picture.name)


def markdown(report: GroundingReport) -> str:
    """The scores as a table for a model card."""
    tallies = report.shown.tallies | {"overall": report.shown.total}
    greys = report.blanked.tallies | {"overall": report.blanked.total} if report.blanked else {}
    columns = ("facts", "conversations", "asked", "right", "right, image blanked")
    lines = []
    for name, tally in tallies.items():
        grey = f"{greys[name].share:.1%}" if greys else ""
        lines.append((name, str(tally.samples), str(tally.asked), f"{tally.share:.1%}", grey))
    return markdown_table(columns, lines)
