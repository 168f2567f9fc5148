"""Placeholders that pass answers, images and literal text through a chat template unchanged.

A template writes special tokens and image markers as plain text, and a user may type the same text.
Special texts in user input are therefore replaced by placeholders before rendering and restored
afterwards; those that the template writes become special tokens.
"""

import re
from collections.abc import Sequence
from typing import Any

from mmspec.ground.errors import CheckpointError
from mmspec.ground.tokens import NO_TOKEN
from mmspec.prompt.images import Picture
from mmspec.prompt.tokenizer import Tokenizer

# Private-use characters. Where a user's text holds one, it is replaced like a special token.
_LITERAL, _ANSWER, IMAGE_MARK, _END = "\ue000", "\ue001", "\ue002", "\ue003"
_VISUAL = "\ue004"  # an image without the tokens around it
_PLACEHOLDER = re.compile(f"{_LITERAL}([0-9]+){_END}")


class Placeholders:
    """The placeholders of one rendering; file: the template's, named in errors."""

    def __init__(self, tokenizer: Tokenizer, file: str) -> None:
        self._tokenizer = tokenizer
        self._file = file
        self._texts: list[str] = []
        special = [*tokenizer.special_texts, _LITERAL, _ANSWER, IMAGE_MARK, _END, _VISUAL]
        self._special = re.compile("|".join(map(re.escape, special)))

    def protect(self, text: str) -> str:
        """`text` with placeholders for the parts that would be read as special tokens."""
        return self._special.sub(self._replace, text)

    def protect_all(self, value: Any) -> Any:
        """A JSON value with all its texts protected."""
        if isinstance(value, str):
            return self.protect(value)
        if isinstance(value, dict):
            return {self.protect(key): self.protect_all(entry) for key, entry in value.items()}
        return [*map(self.protect_all, value)] if isinstance(value, list) else value

    def _replace(self, match: re.Match[str]) -> str:
        self._texts.append(match.group())
        return f"{_LITERAL}{len(self._texts) - 1}{_END}"

    def picture(self, picture: Picture) -> str:
        """The text that stands for a picture within a text of the template's input."""
        tokens = self._tokenizer.image_tokens
        if not picture.frames:
            return IMAGE_MARK
        moments = (
            f"<{moment.clip_place.time:.1f} seconds>{IMAGE_MARK}"
            if tokens.clip == "timed"
            else _VISUAL
            for moment in picture.moments
        )
        return f"{tokens.before}{''.join(moments)}{tokens.after}"

    def answer(self, turn: int) -> str:
        """The text that stands for the answer of turn number `turn` in the template's input."""
        return f"{_ANSWER}{turn}{_END}"

    def between_answers(self, text: str, answers: int) -> list[str]:
        """The parts of a rendered text around its answers; CheckpointError unless all are there."""
        first, *pieces = re.split(f"{_ANSWER}([0-9]+){_END}", text)
        if pieces[::2] != [str(turn) for turn in range(answers)]:
            raise CheckpointError(f"the chat template in {self._file} drops or repeats answers")
        return [first, *pieces[1::2]]

    def parts(self, text: str, images: int) -> Sequence[str | int]:
        """Split a rendered text into literal texts, ids of special tokens and image placeholders.

        Raises CheckpointError unless there are `images` image placeholders.
        """
        image_id, parts = self._tokenizer.image_token_id, list[str | int]()
        frame = self._tokenizer.image_tokens
        text = text.replace(IMAGE_MARK, f"{frame.before}{_VISUAL}{frame.after}")
        if image_id is None:
            text = text.replace(self._tokenizer.image_token, _VISUAL)
        for part in self._tokenizer.split_special(text):
            if isinstance(part, int):
                parts.append(NO_TOKEN if part == image_id else part)
                continue
            for piece in filter(None, re.split(f"({_VISUAL})", part)):
                parts.append(NO_TOKEN if piece == _VISUAL else self._restore(piece))
        count = parts.count(NO_TOKEN)
        if count != images:
            raise CheckpointError(
                f"the chat template in {self._file} shows {count} of {images} images"
            )
        return parts

    def _restore(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: self._texts[int(match[1])], text)
