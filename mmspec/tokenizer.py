"""Text to token ids and back, as a checkpoint's tokenizer defines it.

Text is taken literally: "</s>" or "<image>" in it are characters, never the special token. What
is meant as a special token is said by its id, or by `encode_template`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mmspec.errors import CheckpointError, UsageError
from mmspec.tokenizer_files import Names, read_backend, read_names

if TYPE_CHECKING:
    from tokenizers import AddedToken
    from tokenizers import Tokenizer as Backend

# Private-use text standing for any special token while text is encoded.
_MARK = "\U0010fffdmmspec\U0010fffc"


class Tokenizer:
    """A checkpoint's tokenizer.

    `size` counts its ids; those at or above it (a padded vocabulary) have no text. `bos_id` and
    `image_token_id` are None where there is no such token; a prompt begins with the ids in
    `prefix`, BOS or nothing; generation ends at any of `eos_ids`.
    """

    def __init__(self, backend: "Backend", names: Names) -> None:
        """Take over `backend` and change its settings; `read` opens a directory."""
        self._backend = backend
        self.size = max(backend.get_vocab().values(), default=-1) + 1
        self.image_token = names.image
        self.image_token_id = self.token_id(names.image)
        self.bos_id = self.token_id(names.bos)
        eos_id = self.token_id(names.eos)
        self.eos_ids = names.eos_ids or frozenset(() if eos_id is None else (eos_id,))
        starts_with_bos = backend.encode("").ids[:1] == [self.bos_id]
        stated = starts_with_bos if names.adds_bos is None else names.adds_bos
        self.prefix = [] if self.bos_id is None or not stated else [self.bos_id]
        self._added = self._take_literally()
        self._mark_id = backend.token_to_id(_MARK)

    @classmethod
    def read(cls, directory: Path) -> "Tokenizer":
        """Return the tokenizer of a checkpoint directory.

        Raises CheckpointError if its files are missing or malformed.
        """
        return cls(read_backend(directory), read_names(directory))

    def _take_literally(self) -> dict[int, "AddedToken"]:
        """Make the backend read special tokens in text as text; return the added tokens by id."""
        from tokenizers import AddedToken

        if self.image_token_id is not None:  # some files do not mark it as special
            self._backend.add_special_tokens([AddedToken(self.image_token, special=True)])
        added = self._backend.get_added_tokens_decoder()
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True
        self._backend.add_tokens([AddedToken(_MARK, special=False, normalized=False)])
        return added

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, literally, as at the start of a prompt but without BOS."""
        return self.encode_parts([text])

    def encode_template(self, text: str) -> list[int]:
        """Return the ids of `text`, where special tokens are what they are written as."""
        return self.encode_parts(self.split_special(text))

    def split_special(self, text: str) -> list[str | int]:
        """Return `text` as literal texts and, where one is written, ids of special tokens."""
        return list(self._split(text))

    def _split(self, text: str) -> Iterator[str | int]:
        end = 0
        for match in self._special_pattern.finditer(text):
            if match.start() > end:
                yield text[end : match.start()]
            yield self._special_ids[match[match.lastindex or 0]]
            end = match.end()
        if end < len(text):
            yield text[end:]

    def encode_parts(self, parts: Sequence[str | int], *, continues: bool = False) -> list[int]:
        """Return the ids of literal texts and of ids among them, which stay as they are.

        An id, whatever its value, bounds the text at its sides as a special token does. With
        `continues`, the first text follows other tokens and is given no leading space.
        """
        if continues:
            return self.encode_parts([-1, *self._continued(parts)])[1:]
        kept = iter([part for part in parts if isinstance(part, int)])
        texts = (_MARK if isinstance(part, int) else part.replace(_MARK, "") for part in parts)
        ids = self._backend.encode(_unicode("".join(texts)), add_special_tokens=False).ids
        return [next(kept) if id == self._mark_id else id for id in ids]

    def _continued(self, parts: Sequence[str | int]) -> list[str | int]:
        """Take off the space that some normalizers put back before any text."""
        first, *others = parts or [""]
        if isinstance(first, str) and self._prepends_space:
            first = first.removeprefix(" ")
        return [first, *others]

    @cached_property
    def _prepends_space(self) -> bool:
        normalizer = self._backend.normalizer
        return normalizer is not None and normalizer.normalize_str("x") == "\u2581x"

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """Return the text of `ids`; ids without a token have none."""
        known = [id for id in ids if 0 <= id < self.size]
        return self._backend.decode(known, skip_special_tokens=skip_special)

    def stream(self) -> "TextStream":
        """Return a stream whose pieces concatenate to `decode` of all ids pushed."""
        return TextStream(self.decode, self._visible_token)

    def token(self, id: int) -> str | None:
        """Return the token of `id` as the vocabulary writes it, or None."""
        return self._backend.id_to_token(id) if 0 <= id < self.size else None

    def token_id(self, token: str | None) -> int | None:
        """Return the id of a token as the vocabulary writes it, or None."""
        return None if token is None else self._backend.token_to_id(token)

    @cached_property
    def newline_id(self) -> int:
        """The id whose text is one newline; raises CheckpointError where there is none."""
        for id in reversed(self.encode("\n")):
            if self.decode([id]) == "\n":
                return id
        raise CheckpointError("the tokenizer has no token for a newline")

    def is_added(self, id: int) -> bool:
        """Tell whether `id` was added to the model's vocabulary, special or not."""
        return id in self._added

    @property
    def special_texts(self) -> tuple[str, ...]:
        """How special tokens are written, the image marker among them, longest first."""
        return tuple(sorted({*self._special_ids, self.image_token}, key=len, reverse=True))

    def _visible_token(self, id: int) -> str | None:
        added = self._added.get(id)
        return None if added is not None and added.special else self.token(id)

    @cached_property
    def _special_ids(self) -> dict[str, int]:
        return {token.content: id for id, token in self._added.items() if token.special}

    @cached_property
    def _special_pattern(self) -> re.Pattern[str]:
        tokens = [token for token in self._added.values() if token.special]
        tokens.sort(key=lambda token: len(token.content), reverse=True)
        return re.compile("|".join(map(_written, tokens)) or "(?!)")


class TextStream:
    """Text that grows with its ids; holds back what a later id could still change.

    Held back are an incomplete character, and a run of byte tokens until it ends (a decoder reads
    such a run as a whole). Only a short tail of ids is decoded again at each push.
    """

    def __init__(
        self, decode: Callable[[Sequence[int]], str], token: Callable[[int], str | None]
    ) -> None:
        """Open with `Tokenizer.stream`; `token` gives None for ids that have no text."""
        self._decode = decode
        self._token = token
        self._context: list[int] = []  # ids given out last: the decoder trims only a text's start
        self._pending: list[int] = []

    def push(self, ids: Iterable[int]) -> str:
        """Return the text that `ids` complete, which may be empty."""
        self._pending += [id for id in ids if self._token(id) is not None]
        stable = len(self._pending)
        while stable and _is_byte(self._token(self._pending[stable - 1])):
            stable -= 1
        return self._give_out(stable) if stable else ""

    def finish(self) -> str:
        """Return the text held back; the stream starts anew."""
        piece = self._text_of(self._pending)
        self._context, self._pending = [], []
        return piece

    def _give_out(self, stable: int) -> str:
        piece = self._text_of(self._pending[:stable])
        if piece.endswith("\ufffd"):  # perhaps a character of which bytes are missing
            return ""
        self._context, self._pending = self._pending[:stable], self._pending[stable:]
        return piece

    def _text_of(self, ids: list[int]) -> str:
        return self._decode(self._context + ids)[len(self._decode(self._context)) :]


def shared_vocabulary(target: Tokenizer, draft: Tokenizer) -> int:
    """Return how many leading ids are the same token in both; padding may differ.

    Raises UsageError naming the first id that differs, unless from there on all are added tokens.
    """
    shared = min(target.size, draft.size)
    equal = next((id for id in range(shared) if target.token(id) != draft.token(id)), shared)
    if all(target.is_added(id) or draft.is_added(id) for id in range(equal, shared)):
        return equal
    raise UsageError(
        f"the draft has another vocabulary: id {equal} is {draft.token(equal)!r}, but "
        f"{target.token(equal)!r} in the target; use a draft with the target's tokenizer"
    )


def _is_byte(token: str | None) -> bool:
    return token is not None and len(token) == 6 and token.startswith("<0x") and token[-1] == ">"


def _written(token: "AddedToken") -> str:
    """Return the pattern of a special token in text, with the spaces it takes along."""
    left = r"\s*" if token.lstrip else ""
    right = r"\s*" if token.rstrip else ""
    return f"{left}({re.escape(token.content)}){right}"


def _unicode(text: str) -> str:
    """Pass a text on; raises UsageError where it holds bytes that were no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{text[error.start : error.end]!r} in the text is no UTF-8") from error
    return text
