"""Training conversations by number, from the synthetic world or from a file."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from mmspec import errors
from mmspec.checkpoints.config import ModelConfig
from mmspec.prompt.conversation import IMAGE_MARKER, Message, Turn, interleaved
from mmspec.prompt.images import Picture, open_picture, picture_from
from mmspec_train.mini.recipe import TASK_SHARES
from mmspec_train.settings import DataSettings
from mmspec_train.teacher.instructions import FORMAT, Instructions, read_instructions
from mmspec_world import sample
from mmspec_world.split import Split

TEXT_SHARES = {"told": 1.0}
"""Relative share of each task for a text-only target."""
SHARES = {task: share for task, share in TASK_SHARES.items() if task != "drill"}
"""Relative share of each task for a target with vision: all tasks but the drills."""
TEXT_ONLY_PIXELS = 48
"""Side in pixels of the world's pictures for a text-only target, which reads none."""
HELD_OUT_ONE_IN = 20
"""One of this many lines of a file is held out from training."""


@dataclass(frozen=True)
class WorldCorpus:
    """Conversations of the synthetic world, with images of `image_size` x `image_size` pixels."""

    shares: dict[str, float]
    image_size: int
    split: Split = "train"
    seed: int = 0

    @property
    def about(self) -> str:
        """A line with every setting that determines the conversations."""
        shares = " ".join(f"{task} {share:g}" for task, share in self.shares.items())
        world = f"synthetic world, {self.split}, seed {self.seed}, {self.image_size} pixels"
        return f"{world}, {shares}"

    @property
    def size(self) -> None:
        """None: the world has no end."""
        return None

    def check(self, count: int) -> None:
        """Do nothing: every conversation can be drawn."""

    def turns(self, number: int) -> list[Turn]:
        """Draw the conversation with this number; only its questions contain images."""
        rng = random.Random(f"{self.seed}/{self.split}/{number}")
        task = rng.choices(tuple(self.shares), tuple(self.shares.values()))[0]
        conversation = sample(task, rng.getrandbits(48), split=self.split, size=self.image_size)
        pictures = iter([picture_from(image) for image in conversation.images])
        return [
            Turn(interleaved(turn.question, list(islice(pictures, turn.images))), (), turn.answer)
            for turn in conversation.turns
        ]


@dataclass(frozen=True)
class InstructionFile:
    """JSON lines in LLaVA's instruction format, image paths relative to a directory.

    Each `<image>` in a question stands for the next image of its line. Blank lines are skipped.
    """

    path: Path
    images: Path
    split: Split = "train"

    @property
    def about(self) -> str:
        """A line with the path, size and split of the file."""
        return f"{self.path.resolve()}, {self.path.stat().st_size} bytes, {self.split}"

    @property
    def size(self) -> int:
        """The number of the file's lines in this split."""
        return len(self._lines)

    @cached_property
    def _lines(self) -> list[tuple[int, int]]:
        """Line number and byte offset of each line in this split."""
        lines, offset = [], 0
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    lines += [(number, offset)] if line.strip() else []
                    offset += len(line)
        except OSError as error:
            raise errors.UsageError(f"cannot read {self.path}: {error.strerror}") from error
        if len(lines) == 1 and self.path.read_bytes().lstrip().startswith(b"["):
            raise errors.UsageError(
                f"{self.path} is one line, not JSON lines: write one conversation a line, for "
                "example with jq -c '.[]'"
            )
        held_out = self.split == "held-out"
        of_split = [line for line in lines if (line[0] % HELD_OUT_ONE_IN == 0) == held_out]
        if not of_split:
            raise errors.UsageError(
                f"{self.path} has {len(lines)} {'line' if len(lines) == 1 else 'lines'}: give at "
                f"least {HELD_OUT_ONE_IN}, of which one in {HELD_OUT_ONE_IN} is held out"
            )
        return of_split

    def check(self, count: int) -> None:
        """Read the first `count` conversations and check that their image files exist."""
        for number in range(min(count, self.size)):
            line, instructions = self._read(number)
            for image in instructions.images:
                if not (self.images / image).is_file():
                    raise errors.ImageError(
                        f"{self.path}:{line}: there is no image {self.images / image}: "
                        "give the directory of the images by --images"
                    )

    def turns(self, number: int) -> list[Turn]:
        """Read a conversation.  Raises MmspecError, naming file and line, where it cannot."""
        line, instructions = self._read(number)
        try:
            pictures = iter([open_picture(self.images / image) for image in instructions.images])
        except errors.ImageError as error:
            raise errors.ImageError(f"{self.path}:{line}: {error}") from error
        return [
            Turn(_message(question, pictures), (), answer.strip())
            for question, answer in instructions.turns
        ]

    def _read(self, number: int) -> tuple[int, Instructions]:
        line, offset = self._lines[number % len(self._lines)]
        with self.path.open("rb") as file:
            file.seek(offset)
            text = file.readline()
        try:
            return line, read_instructions(text)
        except ValueError as error:
            raise errors.UsageError(
                f"{self.path}:{line}: {error}; a line is like {FORMAT}"
            ) from error


def _message(text: str, pictures: Iterator[Picture]) -> Message:
    """Replace each image marker, and the line break beside it, by the next picture."""
    for marker_line in (f"{IMAGE_MARKER}\n", f"\n{IMAGE_MARKER}"):
        text = text.replace(marker_line, IMAGE_MARKER)
    return interleaved(text, list(islice(pictures, text.count(IMAGE_MARKER))))


Corpus = WorldCorpus | InstructionFile
"""Numbered conversations in a fixed order."""


def open_corpora(settings: DataSettings, config: ModelConfig) -> tuple[Corpus, Corpus]:
    """Return the training and the held-out corpus: of `--data`, else of the synthetic world."""
    if settings.data:
        images = settings.images or settings.data.parent
        return InstructionFile(settings.data, images), InstructionFile(
            settings.data, images, "held-out"
        )
    vision, seed = config.vision, settings.seed
    shares = SHARES if vision else TEXT_SHARES
    size = vision.image_size if vision else TEXT_ONLY_PIXELS
    return WorldCorpus(shares, size, "train", seed), WorldCorpus(shares, size, "held-out", seed)
