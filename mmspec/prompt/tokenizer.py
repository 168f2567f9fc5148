"""Converts text to token ids and back with a checkpoint's tokenizer.

Text is literal: "</s>" or "<image>" in it are characters, never the special token. Special tokens
are passed as ids; `split_special` finds them in a template's text.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from mmspec.families.family import ImageTokens
from mmspec.ground.errors import CheckpointError, UsageError
from mmspec.ground.input_files import ENCODING_REMEDY
from mmspec.ground.latest_values import LatestValues
from mmspec.prompt.text_stream import TextStream, is_byte
from mmspec.prompt.tokenizer_files import (
    FILE,
    LLAVA_IMAGE,
    Names,
    read_backend,
    read_names,
    tokenizer_errors,
    tokenizer_file,
)

if TYPE_CHECKING:
    from tokenizers import AddedToken
    from tokenizers import Tokenizer as Backend

MOST_TOKENS = 4_000_000
"""The most ids of a tokenizer."""

CACHE_TOKENS = 1_000_000
"""Tokens of the latest texts whose ids are kept: a long conversation is tokenized once."""

# Private-use text standing for any special token while text is encoded.
_MARK = "\U0010fffdmmspec\U0010fffc"


class Tokenizer:
    """A checkpoint's tokenizer.

    `size` is the number of its ids; larger ids (a padded vocabulary) have no text. `bos_id` and
    `image_token_id` are None if there is no such token. `prefix` starts every prompt: BOS, or
    nothing. `eos_ids` holds the end-of-sequence token; a model's config may name others.
    """

    def __init__(self, backend: "Backend", names: Names, file: Path = Path(FILE)) -> None:
        """backend: its settings are changed.  file: named in errors.  Use `read` for a directory.

        Raises CheckpointError if `tokenizers` cannot use it.
        """
        self._backend = backend
        self._file = file
        self.keeps_texts = True
        """Whether the ids of the latest texts are kept."""
        self._cache = LatestValues[list[int]](CACHE_TOKENS, lambda ids: 16 + len(ids))
        with tokenizer_errors(file):
            self._set_up(backend, names)

    def _set_up(self, backend: "Backend", names: Names) -> None:
        backend.no_truncation()
        backend.no_padding()
        self.size = max(backend.get_vocab().values(), default=-1) + 1
        if self.size > MOST_TOKENS:
            raise ValueError(f"it has the id {self.size - 1}, and {MOST_TOKENS:,} are allowed")
        self.image_tokens, self.image_token = names.image, names.image.image
        self.image_token_id = self.token_id(self.image_token)
        self.bos_id = self.token_id(names.bos)
        eos_id = self.token_id(names.eos)
        self.eos_ids = frozenset(() if eos_id is None else (eos_id,))
        starts_with_bos = backend.encode("").ids[:1] == [self.bos_id]
        adds_bos = starts_with_bos if names.adds_bos is None else names.adds_bos
        self.prefix = [] if self.bos_id is None or not adds_bos else [self.bos_id]
        self._added_tokens = self._take_literally()
        self._special = {id: token for id, token in self._added_tokens.items() if token.special}
        self._mark_id = backend.token_to_id(_MARK)

    @classmethod
    def read(cls, directory: Path, image: ImageTokens = LLAVA_IMAGE) -> "Tokenizer":
        """Read a checkpoint's tokenizer.  image: the family's tokens.  Raises CheckpointError."""
        file, names = tokenizer_file(directory), read_names(directory, image)
        return cls(read_backend(directory), names, file)

    def _take_literally(self) -> dict[int, "AddedToken"]:
        """Make `tokenizers` read special tokens in text as text; returns the added tokens by id."""
        from tokenizers import AddedToken

        if self.image_token_id is not None:  # some files do not mark it as special
            self._backend.add_special_tokens([AddedToken(self.image_token, special=True)])
        tokens = self._backend.get_added_tokens_decoder()
        self._backend.encode_special_tokens = True
        self._backend.add_tokens([AddedToken(_MARK, special=False, normalized=False)])
        return tokens

    def end(self, model_ids: Iterable[int]) -> int:
        """The token that ends an answer: a chat's, else the least of `model_ids`, a model's.

        Raises CheckpointError if there is none.
        """
        if ids := self.eos_ids or {*model_ids}:
            return min(ids)
        raise CheckpointError(
            f"{self._file.parent} names no token that ends an answer: give `eos_token` in its "
            "tokenizer_config.json"
        )

    def encode(self, text: str) -> list[int]:
        """The ids of literal `text` at the start of a prompt, without BOS."""
        return self.encode_parts([text])

    def split_special(self, text: str) -> Iterator[str | int]:
        """Yield the literal texts of `text` and the ids of special tokens between them."""
        end = 0
        for match in self._special_pattern.finditer(text):
            if match.start() > end:
                yield text[end : match.start()]
            yield self._special_ids[match[match.lastindex or 0]]
            end = match.end()
        if end < len(text):
            yield text[end:]

    def encode_parts(self, parts: Iterable[str | int], *, continues: bool = False) -> list[int]:
        """The ids of literal texts; ids among the parts stay as they are.

        Every id splits the text, as a special token does. With `continues`, the first text follows
        other tokens and gets no leading space.
        """
        parts = tuple(parts)
        if continues:
            first, *others = parts or ("",)
            if isinstance(first, str) and self._prepends_space:
                first = first.removeprefix(" ")
            parts = (-1, first, *others)
        encode = partial(self._encode, parts)
        ids = self._cache.get(parts, encode) if self.keeps_texts else encode()
        return ids[int(continues) :]

    def _encode(self, parts: Sequence[str | int]) -> list[int]:
        special_ids = iter([part for part in parts if isinstance(part, int)])
        texts = (_MARK if isinstance(part, int) else part.replace(_MARK, "") for part in parts)
        text = "".join(texts)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            wrong = text[error.start : error.end]
            raise UsageError(
                f"{wrong!r} in the text is not UTF-8, so nothing was sent: {ENCODING_REMEDY}"
            ) from error
        with tokenizer_errors(self._file):
            ids = self._backend.encode(text, add_special_tokens=False).ids
        return [next(special_ids) if id == self._mark_id else id for id in ids]

    @cached_property
    def _prepends_space(self) -> bool:
        """True if the normalizer adds a space to every text."""
        normalizer = self._backend.normalizer
        with tokenizer_errors(self._file):
            return normalizer is not None and normalizer.normalize_str("x") == "\u2581x"

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """The text of `ids`; ids without a token are left out."""
        with_text = [id for id in ids if 0 <= id < self.size]
        with tokenizer_errors(self._file):
            return self._backend.decode(with_text, skip_special_tokens=skip_special)

    def bytes_of(self, id: int) -> bytes:
        """The bytes of a token within a text; the token may be a part of a character."""
        before = [self.newline_id]  # a decoder trims the start of a text
        text = self.decode([*before, id])[len(self.decode(before)) :]
        token, letters = self.token(id) or "", byte_letters()
        if "\ufffd" in text and is_byte(token):
            return bytes([int(token[3:-1], 16)])
        if "\ufffd" in text and letters.keys() >= set(token):
            return bytes(letters[letter] for letter in token)
        return text.encode()

    def to_json(self) -> str:
        """The tokenizer as a tokenizer.json, for other libraries."""
        content = json.loads(self._backend.to_str())
        tokens = [token for token in content["added_tokens"] if token["content"] != _MARK]
        return json.dumps({**content, "added_tokens": tokens})

    def stream(self, context: Sequence[int] = ()) -> TextStream:
        """A stream whose pieces concatenate to `decode` of all pushed ids.

        context: the ids that they follow, after which a decoder does not trim a space.
        """
        return TextStream(self.decode, self._visible_token, context)

    def token(self, id: int) -> str | None:
        """The token with this id as the vocabulary writes it, or None."""
        return self._backend.id_to_token(id) if 0 <= id < self.size else None

    def token_id(self, token: str | None) -> int | None:
        """The id of `token`, written as in the vocabulary, or None."""
        return None if token is None else self._backend.token_to_id(token)

    @cached_property
    def newline_id(self) -> int:
        """The id of the newline token; raises CheckpointError if there is none."""
        for id in reversed(self.encode("\n")):
            if self.decode([id]) == "\n":
                return id
        raise CheckpointError(f"{self._file} has no token for a newline")

    def is_added(self, id: int) -> bool:
        """True if `id` was added to the model's vocabulary, special or not."""
        return id in self._added_tokens

    @property
    def special_texts(self) -> tuple[str, ...]:
        """The texts of special tokens and of the image marker, longest first."""
        return tuple(sorted({*self._special_ids, self.image_token}, key=len, reverse=True))

    def _visible_token(self, id: int) -> str | None:
        return None if id in self._special else self.token(id)

    @cached_property
    def _special_ids(self) -> dict[str, int]:
        return {token.content: id for id, token in self._special.items() if token.content}

    @cached_property
    def _special_pattern(self) -> re.Pattern[str]:
        tokens = [token for token in self._special.values() if token.content]
        tokens.sort(key=lambda token: len(token.content), reverse=True)
        patterns = [  # with the spaces that it absorbs
            r"\s*" * token.lstrip + f"({re.escape(token.content)})" + r"\s*" * token.rstrip
            for token in tokens
        ]
        return re.compile("|".join(patterns) or "(?!)")


def shared_vocabulary(target: Tokenizer, draft: Tokenizer) -> int:
    """The number of leading ids with the same token in both; padding may differ.

    Raises UsageError naming the first id that differs, unless all from there on are added tokens.
    """
    size = min(target.size, draft.size)
    equal = next((id for id in range(size) if target.token(id) != draft.token(id)), size)
    if all(target.is_added(id) or draft.is_added(id) for id in range(equal, size)):
        return equal
    raise UsageError(
        f"the draft has another vocabulary: id {equal} is {draft.token(equal)!r}, but "
        f"{target.token(equal)!r} in the target; use a draft with the target's tokenizer"
    )


@cache
def byte_letters() -> dict[str, int]:
    """The byte that each letter of a byte-level vocabulary stands for: GPT-2's table.

    Bytes that Latin-1 prints are written as themselves, the others as the letters from 256 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + place): byte for place, byte in enumerate(unprintable)}
