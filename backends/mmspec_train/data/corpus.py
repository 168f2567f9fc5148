"""Training conversations by number, from the synthetic world or from files."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from mmspec.checkpoints.config import ModelConfig
from mmspec.ground import errors
from mmspec.prompt.conversation import IMAGE_MARKER, Message, Turn, interleave
from mmspec.prompt.images import Picture, open_picture, picture_from
from mmspec_train.data.conversation_file import HELD_OUT_ONE_IN, ConversationFile
from mmspec_train.settings import DataSettings
from mmspec_world import SCRIPTS, sample
from mmspec_world.split import Split

SHARES: dict[str, float] = {
    "chat": 14, "general": 22, "conversation": 16, "detail": 2, "caption": 2, "hallucination": 5,
    "chart": 7, "text": 8, "reasoning": 16, "science": 6, "spot": 17, "edit": 18, "pororo": 1,
    "vist": 1, "video": 1, "swap": 1, "told": 35,
}  # fmt: skip
"""Relative share of each task for a target with vision."""
TEXT_SHARES = {"told": 1.0}
"""Relative share of each task for a text-only target."""
TEXT_ONLY_PIXELS = 48
"""Side in pixels of the world's pictures for a text-only target, which reads none."""


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

    size = None
    """The world has no end."""

    def check(self) -> list[str]:
        """Return nothing to say: every conversation can be drawn."""
        return []

    def turns(self, number: int) -> list[Turn]:
        """Draw the conversation with this number; only its questions contain images."""
        rng = random.Random(f"{self.seed}/{self.split}/{number}")
        task = rng.choices(tuple(self.shares), tuple(self.shares.values()))[0]
        conversation = sample(task, rng.getrandbits(48), split=self.split, size=self.image_size)
        pictures = iter([picture_from(image) for image in conversation.images])
        return [
            Turn(interleave(turn.question, list(islice(pictures, turn.images))), (), turn.answer)
            for turn in conversation.turns
        ]


@dataclass(frozen=True)
class FileCorpus:
    """The conversations of one or more files, in turn."""

    files: tuple[ConversationFile, ...]
    split: Split = "train"

    @property
    def about(self) -> str:
        """A line with the path, size and image folder of each file, and the split."""
        files = [
            f"{file.path.resolve()}, {file.path.stat().st_size} bytes, {file.images.resolve()}"
            for file in self.files
        ]
        return ", ".join([*files, self.split])

    @property
    def size(self) -> int:
        """The number of conversations of all files in this split."""
        return len(self._order)

    @cached_property
    def _order(self) -> list[tuple[int, int]]:
        """The file of each conversation, and its number there."""
        return in_turn([file.numbers(self.split) for file in self.files])

    def check(self) -> list[str]:
        """Return a line for each file of which something is left out.

        Raises UsageError if most of a file is unusable, or all of this split.
        """
        lines = [file.check() for file in self.files]
        if not self.size:
            names = ", ".join(str(file.path) for file in self.files)
            raise errors.UsageError(
                f"{names}: every {HELD_OUT_ONE_IN}th conversation is held out, and none of these "
                "can be used: repair one, or move usable ones there"
            )
        return list(filter(None, lines))

    def turns(self, number: int) -> list[Turn]:
        """Read a conversation.  Raises ImageError, naming file and place, for a damaged image."""
        source, place = self._order[number % self.size]
        file = self.files[source]
        instructions = file.index.usable[place]
        try:
            pictures = iter([open_picture(file.find(image)) for image in instructions.images])
        except errors.ImageError as error:
            raise errors.ImageError(f"{file.path}:{place}: {error}") from error
        turns = instructions.turns
        if not instructions.images:
            return [Turn(Message("user", (text,)), (), answer.strip()) for text, answer in turns]
        return [Turn(_message(text, pictures), (), answer.strip()) for text, answer in turns]


def in_turn(files: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return file and number of all conversations; every beginning has the files' shares."""
    places = [
        ((position + 0.5) / len(numbers), file, number)
        for file, numbers in enumerate(files)
        for position, number in enumerate(numbers)
    ]
    return [(file, number) for _, file, number in sorted(places)]


def _message(text: str, pictures: Iterator[Picture]) -> Message:
    """Replace each image marker, and the line break beside it, by the next picture."""
    for marker_line in (f"{IMAGE_MARKER}\n", f"\n{IMAGE_MARKER}"):
        text = text.replace(marker_line, IMAGE_MARKER)
    return interleave(text, list(islice(pictures, text.count(IMAGE_MARKER))))


Corpus = WorldCorpus | FileCorpus
"""Numbered conversations in a fixed order."""


def open_corpora(settings: DataSettings, config: ModelConfig) -> tuple[Corpus, Corpus]:
    """Return the training and held-out corpus, of `--data` or the world; raises UsageError."""
    if settings.data:
        folders = settings.images or tuple(file.parent for file in settings.data)
        if len(folders) == 1:
            folders *= len(settings.data)
        corpus = FileCorpus(tuple(map(ConversationFile, settings.data, folders)))
        return corpus, replace(corpus, split="held-out")
    vision, seed = config.vision, settings.seed
    shares = task_shares(settings.task) or (SHARES if vision else TEXT_SHARES)
    size = vision.image_size if vision else TEXT_ONLY_PIXELS
    return WorldCorpus(shares, size, "train", seed), WorldCorpus(shares, size, "held-out", seed)


def task_shares(tasks: Sequence[str]) -> dict[str, float]:
    """Return the share of each of the named tasks."""
    for task in tasks:
        if task not in SCRIPTS:
            raise errors.choice("--task", task, SCRIPTS)
    return dict(Counter(tasks))
