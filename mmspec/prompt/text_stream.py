"""Decodes token ids as they come, and finds where a text ends that has come in part."""

from collections.abc import Callable, Iterable, Sequence


class TextStream:
    """Decodes ids incrementally; withholds text that a later id could still change.

    Such text is an incomplete character, or a run of byte tokens, which the decoder reads as a
    whole (`tokenizers.decoders.DecodeStream` fails there). Each push decodes only the last few ids
    again.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        token: Callable[[int], str | None],
        context: Sequence[int] = (),
    ) -> None:
        """Called by `Tokenizer.stream`; `token` returns None for ids without text."""
        self._decode = decode
        self._token = token
        self._context = list(context)  # the ids returned last: a decoder trims a text's start
        self._ids: list[int] = []

    def push(self, ids: Iterable[int]) -> str:
        """The text that `ids` complete, which may be empty."""
        self._ids += [id for id in ids if self._token(id) is not None]
        stable = len(self._ids)
        while stable and is_byte(self._token(self._ids[stable - 1])):
            stable -= 1
        return self._release(stable) if stable else ""

    @property
    def tail(self) -> str:
        """The whole characters of the text that is withheld."""
        return self._text_of(self._ids).rstrip("\ufffd") if self._ids else ""

    def finish(self) -> str:
        """The withheld text; resets the stream."""
        piece = self._text_of(self._ids)
        self._context, self._ids = [], []
        return piece

    def _release(self, stable: int) -> str:
        piece = self._text_of(self._ids[:stable])
        if piece.endswith("\ufffd"):  # perhaps a character whose last bytes are to come
            return ""
        self._context, self._ids = self._ids[:stable], self._ids[stable:]
        return piece

    def _text_of(self, ids: list[int]) -> str:
        return self._decode(self._context + ids)[len(self._decode(self._context)) :]


def is_byte(token: str | None) -> bool:
    """True for a token that is a byte of text, as in sentencepiece's vocabularies."""
    return token is not None and len(token) == 6 and token.startswith("<0x") and token[-1] == ">"


def before_stop(text: str, stops: Sequence[str], overlap: int = 0) -> tuple[int, bool]:
    """Number of characters before the first stop string, and whether all of it is there.

    Without a whole one, what may begin one counts: the longest end of the text that does.
    overlap: the first characters, in which no stop string ends.
    """
    places = (text.find(stop, max(overlap - len(stop) + 1, 0)) for stop in stops)
    if starts := [place for place in places if place >= 0]:
        return min(starts), True
    longest = max(map(len, stops), default=1) - 1
    for place in range(max(len(text) - longest, 0), len(text)):
        if any(stop.startswith(text[place:]) for stop in stops):
            return place, False
    return len(text), False
