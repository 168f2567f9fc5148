"""Which characters of an answer were drafted."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from mmspec.chat.answer import Piece


@dataclass(frozen=True, slots=True)
class Part:
    """Text of one origin."""

    text: str
    drafted: bool = False
    """True for text of accepted drafted tokens, false for the target's own."""


@dataclass(slots=True)
class Origins:
    """Remembers the origin of text that is withheld until it can be shown."""

    _held: list[Part] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        """Add the text of a round."""
        self._held += [Part(piece.accepted, drafted=True), Part(piece.own)]

    def take(self, length: int) -> Iterator[Part]:
        """Yield the next `length` characters, none of them twice."""
        while length and self._held:
            part = self._held.pop(0)
            shown = replace(part, text=part.text[:length])
            if shown.text:
                yield shown
            length -= len(shown.text)
            if rest := part.text[len(shown.text) :]:
                self._held.insert(0, replace(part, text=rest))
