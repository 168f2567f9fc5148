"""Does a model see?  Facts asked about drawn pictures, judged against what was drawn."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any

from PIL import Image

from mmspec.bench.prompts import question
from mmspec.bench.world import CATEGORIES, TASKS, Sample, judge, sample
from mmspec.engine import Engine
from mmspec.errors import UsageError
from mmspec.images import Picture, picture_from
from mmspec.options import Options

GREY = (128, 128, 128)

Make = Callable[[str, int], Sample]
"""Makes the held-out sample of a task that belongs to a seed."""


@dataclass(slots=True)
class Tally:
    """Facts of one category."""

    samples: int = 0
    """Conversations that asked for at least one."""
    asked: int = 0
    right: int = 0

    @property
    def share(self) -> float:
        """Right facts over asked ones."""
        return self.right / self.asked if self.asked else 0.0


@dataclass(slots=True)
class Score:
    """Facts by category, and the conversations they were asked in."""

    tallies: dict[str, Tally] = field(default_factory=lambda: {c: Tally() for c in CATEGORIES})
    conversations: int = 0

    @property
    def overall(self) -> float:
        """Right facts over asked ones, all categories together."""
        asked = sum(tally.asked for tally in self.tallies.values())
        return sum(tally.right for tally in self.tallies.values()) / asked if asked else 0.0

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
        total = {"overall": self.overall, "conversations": self.conversations}
        return total | {"categories": shares}


@dataclass(frozen=True, slots=True)
class GroundingReport:
    """Scores with the images shown and, where it was asked for, with grey in their place."""

    model: str
    seed: int
    shown: Score
    blanked: Score | None
    provenance: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-serializable."""
        return {
            "model": self.model,
            "seed": self.seed,
            "shown": self.shown.as_dict(),
            "blanked": self.blanked.as_dict() if self.blanked else None,
            "provenance": self.provenance,
        }


def held_out(engine: Engine) -> Make:
    """Samples no model was trained on, drawn at the size the target sees.

    Raises UsageError for a target that sees no images.
    """
    vision = engine.target.model.config.vision
    if vision is None:
        raise UsageError(f"{engine.target.name} is text-only: grounding needs a model that sees")
    return lambda task, seed: sample(task, seed, split="held-out", size=vision.image_size)


def grounding(
    engine: Engine,
    make: Make,
    options: Options,
    *,
    samples: int,
    seed: int = 0,
    blank: bool = False,
    progress: Callable[[str], None],
) -> Score:
    """Ask until every category has been asked for in `samples` conversations.

    The answers are the target's own: speculation, where there is a draft, only makes them faster.
    blank: show mid-grey pictures of the same sizes instead.
    """
    score = Score()
    for made in needed(make, score, samples, seed):
        score.count(list(verdicts(engine, made, options, blank=blank)))
        least = min(score.tallies.values(), key=lambda tally: tally.samples)
        progress(
            f"{score.conversations} conversations, {least.samples} of {samples} in the rarest "
            f"category, {score.overall:.1%} right"
        )
    return score


def needed(make: Make, score: Score, samples: int, seed: int) -> Iterator[Sample]:
    """Samples of all tasks in turn, leaving out those that ask for nothing still wanted.

    What a task asks for is learnt from its samples; one seed in eight keeps looking anyway.
    """
    asks: dict[str, set[str]] = {task: set() for task in TASKS}
    for number, task in ((number, task) for number in count(seed) for task in TASKS):
        wanted = {name for name, tally in score.tallies.items() if tally.samples < samples}
        if not wanted:
            return
        if asks[task] and not asks[task] & wanted and number % 8:
            continue
        made = make(task, number)
        categories = {fact.category for turn in made.turns for fact in turn.facts}
        asks[task] |= categories
        if categories & wanted:
            yield made


def verdicts(
    engine: Engine, made: Sample, options: Options, *, blank: bool = False
) -> Iterator[tuple[str, bool]]:
    """Hold one conversation and judge its facts: a category and whether the answer is right."""
    chat = engine.chat(options)
    shown = (picture_from(image) for image in made.images)
    pictures = iter([blanked(picture) if blank else picture for picture in shown])
    for turn in made.turns:
        for _ in chat.send(question(turn, [next(pictures) for _ in range(turn.images)])):
            pass
        for fact in turn.facts:
            yield fact.category, judge(fact, chat.answer.text)


def blanked(picture: Picture) -> Picture:
    """Mid-grey of the same size."""
    return picture_from(Image.new("RGB", picture.image.size, GREY), picture.name)


def markdown(report: GroundingReport) -> str:
    """The table of a model card."""
    blanked = report.blanked
    rows = [
        (name, str(tally.samples), str(tally.asked), tally.share, _blank_share(blanked, name))
        for name, tally in report.shown.tallies.items()
    ]
    asked = sum(tally.asked for tally in report.shown.tallies.values())
    total = str(report.shown.conversations), str(asked)
    rows.append(("overall", *total, report.shown.overall, blanked.overall if blanked else None))
    head = "| facts | conversations | asked | right | right, image blanked |\n|---|--:|--:|--:|--:|"
    return "\n".join([head, *(_markdown_row(*row) for row in rows)])


def _blank_share(blanked: Score | None, name: str) -> float | None:
    return blanked.tallies[name].share if blanked else None


def _markdown_row(name: str, samples: str, asked: str, right: float, blank: float | None) -> str:
    without = "" if blank is None else f"{blank:.1%}"
    return f"| {name} | {samples} | {asked} | {right:.1%} | {without} |"
