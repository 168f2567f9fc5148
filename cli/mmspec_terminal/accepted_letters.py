"""Which letters on the screen the draft had proposed."""

from collections.abc import Iterator
from itertools import groupby

from mmspec.chat.answer import Piece


class AcceptedLetters:
    """The letters of an answer that are not shown yet, each with whether a draft had it.

    Markdown shows them in order, without its marks and with blanks and bars of its own.
    """

    def __init__(self) -> None:
        self._letters: list[tuple[str, bool]] = []

    def add(self, piece: Piece) -> None:
        """Take the letters of one round."""
        self._letters += [(letter, True) for letter in piece.accepted]
        self._letters += [(letter, False) for letter in piece.own]

    def parts(self, shown: str) -> Iterator[tuple[str, bool]]:
        """Yield `shown` in parts of accepted letters and of others."""
        marked = [(letter, self._take(letter)) for letter in shown]
        for is_accepted, part in groupby(marked, key=lambda pair: pair[1]):
            yield "".join(letter for letter, _ in part), is_accepted

    def _take(self, letter: str) -> bool:
        letters = self._letters[:1] if letter.isspace() else self._letters
        for place, (other, is_accepted) in enumerate(letters):
            if other == letter:
                del self._letters[: place + 1]
                return is_accepted
        return False
