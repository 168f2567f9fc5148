"""Conversations to learn from, each by its number: the drawn world's, or a file's with images."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from mmspec import errors
from mmspec.bench.prompts import MARKER, question
from mmspec.bench.world import Sample, sample
from mmspec.bench.world.split import Split
from mmspec.conversation import Message
from mmspec.images import Picture, open_picture, picture_from
from mmspec_torch.train.distill import instructions

HELD_OUT_ONE_IN = 20
"""Of a file's lines, those that are kept from training."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and the answer that the data gives."""

    question: Message
    answer: str


class Corpus(Protocol):
    """Conversations in a fixed order."""

    @property
    def about(self) -> str:
        """One line that tells this corpus from others."""
        ...

    @property
    def size(self) -> int | None:
        """How many there are; None for a corpus without end."""
        ...

    def check(self, count: int) -> None:
        """Raise the MmspecError of the first of so many conversations that cannot be read."""
        ...

    def exchanges(self, number: int) -> list[Exchange]:
        """Return a conversation.

        Raises MmspecError, naming the sample, where it cannot be read.
        """
        ...


@dataclass(frozen=True)
class World:
    """The drawn world: tasks by their shares, images of `size` x `size` pixels."""

    shares: dict[str, float]
    image_size: int
    split: Split = "train"
    seed: int = 0

    @property
    def about(self) -> str:
        """One line."""
        shares = " ".join(f"{task} {share:g}" for task, share in self.shares.items())
        world = f"drawn world, {self.split}, seed {self.seed}, {self.image_size} pixels"
        return f"{world}, {shares}"

    @property
    def size(self) -> None:
        """Without end."""
        return

    def check(self, count: int) -> None:
        """All can be drawn."""

    def exchanges(self, number: int) -> list[Exchange]:
        """Draw a conversation."""
        return list(self._asked(self.drawn(number)))

    def drawn(self, number: int) -> Sample:
        """The sample of a number."""
        rng = random.Random(f"{self.seed}/{self.split}/{number}")
        task = rng.choices(tuple(self.shares), tuple(self.shares.values()))[0]
        return sample(task, rng.getrandbits(48), split=self.split, size=self.image_size)

    @staticmethod
    def _asked(made: Sample) -> Iterator[Exchange]:
        pictures = iter([picture_from(image) for image in made.images])
        for turn in made.turns:
            shown = [next(pictures) for _ in range(turn.images)]
            yield Exchange(question(turn, shown), turn.answer)


@dataclass(frozen=True)
class File:
    """JSON lines in LLaVA's instruction format, image paths relative to a directory.

    Each `<image>` in a question takes the next image of its line. Blank lines hold nothing.
    """

    path: Path
    images: Path
    split: Split = "train"

    @property
    def about(self) -> str:
        """One line."""
        return f"{self.path.resolve()}, {self.path.stat().st_size} bytes, {self.split}"

    @property
    def size(self) -> int:
        """Lines of this split."""
        return len(self._offsets)

    @cached_property
    def _offsets(self) -> list[tuple[int, int]]:
        """Number and first byte of each line of this split."""
        found, at = [], 0
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    found += [(number, at)] if line.strip() else []
                    at += len(line)
        except OSError as error:
            raise errors.UsageError(f"cannot read {self.path}: {error.strerror}") from error
        held_out = self.split == "held-out"
        if len(found) == 1 and self.path.read_bytes().lstrip().startswith(b"["):
            raise errors.UsageError(
                f"{self.path} is one line, not JSON lines: write one conversation a line, for "
                "example with jq -c '.[]'"
            )
        kept = [each for each in found if (each[0] % HELD_OUT_ONE_IN == 0) == held_out]
        if not kept:
            lines = "line" if len(found) == 1 else "lines"
            raise errors.UsageError(
                f"{self.path} has {len(found)} {lines}: give at least {HELD_OUT_ONE_IN}, of which "
                f"one in {HELD_OUT_ONE_IN} is held out"
            )
        return kept

    def check(self, count: int) -> None:
        """Read the first conversations; their images must be there, and are not looked at yet."""
        for number in range(min(count, self.size)):
            line, read = self._read(number)
            for image in read.images:
                if not (self.images / image).is_file():
                    raise errors.ImageError(
                        f"{self.path}:{line}: there is no image {self.images / image}: "
                        "give the directory of the images by --images"
                    )

    def exchanges(self, number: int) -> list[Exchange]:
        """Read a conversation."""
        line, read = self._read(number)
        try:
            pictures = iter([open_picture(self.images / image) for image in read.images])
        except errors.ImageError as error:
            raise errors.ImageError(f"{self.path}:{line}: {error}") from error
        return [
            Exchange(_message(text, pictures), answer.strip())
            for text, answer in zip(read.asked, read.told, strict=True)
        ]

    def _read(self, number: int) -> tuple[int, instructions.Instructions]:
        """The number of a conversation's line, and what it holds."""
        line, offset = self._offsets[number % len(self._offsets)]
        with self.path.open("rb") as file:
            file.seek(offset)
            text = file.readline()
        try:
            return line, instructions.read(text)
        except ValueError as error:
            raise errors.UsageError(
                f"{self.path}:{line}: {error}; a line is like {instructions.FORMAT}"
            ) from error


def _message(text: str, pictures: Iterator[Picture]) -> Message:
    """A question with its images in place; a marker's own line break belongs to it."""
    pieces = text.replace(f"{MARKER}\n", MARKER).replace(f"\n{MARKER}", MARKER).split(MARKER)
    parts: list[str | Picture] = [pieces[0]]
    for piece in pieces[1:]:
        parts += [next(pictures), piece]
    return Message("user", tuple(part for part in parts if part))
