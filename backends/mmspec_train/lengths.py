"""How long the conversations of a corpus are, in columns of a target, for a plan."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mmspec.checkpoints.config import ModelConfig
from mmspec.families.family import Preprocessing
from mmspec.ground.errors import ImageError
from mmspec.prompt.conversation import Turn
from mmspec_train.data_settings import DataSettings
from mmspec_train.teacher.corpus import Corpus
from mmspec_train.teacher.records import Sides

CHARACTERS_PER_TOKEN = 4
SAMPLED = 200
"""Number of conversations whose lengths are measured."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Conversations to train on, and what the mean one has."""

    conversations: int
    turns: float
    visual: float
    """Columns of all images."""
    tower: float
    """Rows that the tower computes of all images."""
    prompt: float
    """Columns of all questions with their images."""
    answer: float
    """Tokens of all answers."""
    notes: tuple[str, ...] = ()
    """A line for each file of which conversations are repaired or skipped."""

    @property
    def columns(self) -> float:
        """Columns of the mean conversation."""
        return self.prompt + self.answer


def measured_lengths(
    corpus: Corpus, settings: DataSettings, target: ModelConfig, images: Preprocessing | None
) -> Lengths:
    """Measure the first conversations of a corpus; the target's answers have their full length."""
    count = min(settings.samples, corpus.size or settings.samples)
    sampled = list(_readable(corpus, min(count, SAMPLED), images))
    turns = [turn for conversation, _ in sampled for turn in conversation]
    visual, rows = _image_sizes([each for _, sides in sampled for each in sides], target)
    parts = [part for turn in turns for part in turn.question.parts]
    asked = sum(len(part) for part in parts if isinstance(part, str))
    prompt = visual + asked / CHARACTERS_PER_TOKEN
    answer = sum(len(turn.answer_text) for turn in turns) / CHARACTERS_PER_TOKEN
    if settings.answers == "target":
        answer = settings.answer_tokens * len(turns)
    each, notes = max(1, len(sampled)), tuple(corpus.notes())
    columns = visual / each, rows / each, prompt / each, answer / each
    return Lengths(count, len(turns) / each, *columns, notes)


def _readable(
    corpus: Corpus, count: int, images: Preprocessing | None
) -> Iterator[tuple[list[Turn], list[Sides]]]:
    """Yield conversations and the sides of their images, but those that training leaves out."""
    for number in range(count):
        with suppress(ImageError):
            turns = corpus.turns(number)
            pictures = [picture for turn in turns for picture in turn.question.pictures]
            yield turns, [images.size(*p.image.size) for p in pictures] if images else []


def _image_sizes(sides: Sequence[Sides], target: ModelConfig) -> tuple[int, int]:
    """Return the columns of images, and the rows that the tower computes of them."""
    vision = target.vision
    if vision is None:
        return 0, 0
    visual = sum(vision.grid(*each).positions for each in sides)
    return visual, sum(vision.tower_rows(*each) for each in sides)
