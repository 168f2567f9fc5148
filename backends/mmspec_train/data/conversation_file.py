"""One file of conversations: which of them can be trained on, and why the others cannot."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmspec.ground import errors
from mmspec_train.data.instructions import (
    FORMAT,
    Instructions,
    UnusableError,
    read_instructions,
)
from mmspec_train.data.json_stream import Entry, read_entries, read_value

HELD_OUT_ONE_IN = 20
"""One of this many conversations of a file is held out from training."""
MOST_SKIPPED = 0.5
"""Largest share of a file's conversations that may be unusable; more is an error."""


@dataclass
class Index:
    """The usable conversations of a file, and the others counted by reason."""

    places: NDArray[np.int64]
    """Number, first byte and size in bytes of each usable conversation [n, 3]."""
    total: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Number and description of the first conversation that was skipped for each reason."""

    def skip(self, entry: Entry, problem: UnusableError) -> None:
        """Count a conversation that cannot be trained on."""
        self.skipped[problem.reason] += 1
        self.first.setdefault(problem.reason, (entry.number, str(problem)))


@dataclass(frozen=True)
class ConversationFile:
    """Conversations in LLaVA's or ShareGPT's format: JSON lines, or one JSON array.

    Image paths are relative to `images`, or to its parent if they begin with its name.
    """

    path: Path
    images: Path

    @cached_property
    def index(self) -> Index:
        """Read the whole file once.  Raises UsageError if it cannot be read."""
        index, places = Index(np.empty((0, 3), np.int64)), []
        try:
            for entry in read_entries(self.path):
                index.total += 1
                try:
                    index.repaired.update(self._usable(entry).repairs)
                    places.append((entry.number, entry.offset, entry.size))
                except UnusableError as problem:
                    index.skip(entry, problem)
        except OSError as error:
            raise errors.UsageError(f"cannot read {self.path}: {error.strerror}") from error
        index.places = np.array(places, np.int64).reshape(-1, 3)
        return index

    def _usable(self, entry: Entry) -> Instructions:
        if entry.error:
            raise UnusableError("in broken JSON", entry.error)
        instructions = read_instructions(entry.value)
        for image in instructions.images:
            if not self.find(image).is_file():
                raise UnusableError("without their image", f"there is no image {self.find(image)}")
        return instructions

    def find(self, image: str) -> Path:
        """Return the path of an image as the file gives it."""
        first = Path(image).parts[:1]
        under_parent = first == (self.images.name,) and not (self.images / image).is_file()
        return (self.images.parent if under_parent else self.images) / image

    def places(self, *, held_out: bool) -> NDArray[np.int64]:
        """Return the places of one in 20 conversations, or of the others; see `Index.places`."""
        places = self.index.places
        chosen = (places[:, 0] % HELD_OUT_ONE_IN == 0) == held_out
        return np.compress(chosen, places, axis=0)

    def read(self, place: NDArray[np.int64]) -> Instructions:
        """Read a usable conversation."""
        _, offset, size = place.tolist()
        return read_instructions(read_value(self.path, offset, size))

    def check(self) -> None:
        """Raise UsageError if most conversations are unusable, or too few are left."""
        index, usable = self.index, len(self.index.places)
        if index.total - usable > MOST_SKIPPED * index.total:
            raise errors.UsageError(self._unusable())
        if usable < HELD_OUT_ONE_IN:
            raise errors.UsageError(
                f"{self.path} has {usable} usable conversation{'' if usable == 1 else 's'}: give "
                f"at least {HELD_OUT_ONE_IN}, of which one in {HELD_OUT_ONE_IN} is held out"
            )

    def _unusable(self) -> str:
        index = self.index
        [(reason, count)] = index.skipped.most_common(1)
        number, detail = index.first[reason]
        remedy = f"a conversation is like {FORMAT}"
        if reason == "without their image":
            remedy = "give the directory of the images by --images"
        return (
            f"{self.path}:{number}: {detail}; {count} of {index.total} conversations are {reason}: "
            f"{remedy}"
        )

    def summary(self) -> str:
        """Return a line with what was skipped and repaired; empty if nothing was."""
        index = self.index
        skipped = [
            f"{count} {reason} (first: {index.first[reason][0]})"
            for reason, count in index.skipped.most_common()
        ]
        repaired = [f"{count} {what}" for what, count in index.repaired.most_common()]
        parts = [
            f"{verb} {', '.join(counts)}"
            for verb, counts in (("skipped", skipped), ("repaired", repaired))
            if counts
        ]
        return "; ".join([f"{self.path.name}: {index.total} conversations", *parts] * bool(parts))
