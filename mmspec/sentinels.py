"""Stand-ins that carry answers, images and literal text through a chat template unharmed.

A template writes special tokens and image markers as plain text, just as a user may. So what a
user wrote of that kind goes through the template in disguise, and every special text that comes
out is the template's own.
"""

import re
from collections.abc import Iterator, Sequence

from mmspec.errors import CheckpointError
from mmspec.tokenizer import Tokenizer

# Private-use characters; those in a user's text are disguised like special tokens.
_LITERAL, _ANSWER, IMAGE, _END = "\ue000", "\ue001", "\ue002", "\ue003"
_DISGUISE = re.compile(f"{_LITERAL}([0-9]+){_END}")

SLOT = -1
"""The id that holds an image's place."""


class Sentinels:
    """The stand-ins of one rendering through one template; `file` names it in errors."""

    def __init__(self, tokenizer: Tokenizer, file: str) -> None:
        """Guard against `tokenizer`'s special tokens."""
        self._tokenizer = tokenizer
        self._file = file
        self._disguised: list[str] = []
        guarded = [*tokenizer.special_texts, _LITERAL, _ANSWER, IMAGE, _END]
        self._guarded = re.compile("|".join(map(re.escape, guarded)))

    def guard(self, text: str) -> str:
        """Return `text` with everything disguised that is not to be taken for a special token."""
        return self._guarded.sub(self._disguise, text)

    def _disguise(self, match: re.Match[str]) -> str:
        self._disguised.append(match.group())
        return f"{_LITERAL}{len(self._disguised) - 1}{_END}"

    def answer(self, turn: int) -> str:
        """Return what stands for the answer of a turn."""
        return f"{_ANSWER}{turn}{_END}"

    def after_answer(self, text: str, turn: int) -> str:
        """Return what a rendered text goes on with after the answer of a turn."""
        _, sentinel, after = text.partition(self.answer(turn))
        if not sentinel or sentinel in after:
            raise CheckpointError(f"the chat template in {self._file} drops or repeats answers")
        return after

    def parts(self, text: str, images: int) -> Sequence[str | int]:
        """Return a rendered text as literal text, special tokens' ids, and SLOT for images."""
        parts = list(self._parts(text))
        if parts.count(SLOT) != images:
            raise CheckpointError(
                f"the chat template in {self._file} shows {parts.count(SLOT)} of {images} images"
            )
        return parts

    def _parts(self, text: str) -> Iterator[str | int]:
        image_id = self._tokenizer.image_token_id
        if image_id is None:
            text = text.replace(self._tokenizer.image_token, IMAGE)
        for part in self._tokenizer.split_special(text):
            if isinstance(part, int):
                yield SLOT if part == image_id else part
            else:
                yield from self._with_slots(part)

    def _with_slots(self, text: str) -> Iterator[str | int]:
        first, *others = text.split(IMAGE)
        yield from [self._plain(first)] if first else []
        for other in others:
            yield SLOT
            yield from [self._plain(other)] if other else []

    def _plain(self, text: str) -> str:
        return _DISGUISE.sub(lambda match: self._disguised[int(match[1])], text)
