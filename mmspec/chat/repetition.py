"""Finds the place where an answer has begun to repeat itself without end."""

from collections.abc import Sequence

LONGEST = 64
"""Tokens in the longest part whose repetition is found."""


class Repetition:
    """Counts for each period how many of the last tokens equal those one period earlier."""

    def __init__(self, limit: int) -> None:
        """limit: tokens of repetition, in all, at which an answer ends; 0: it never does."""
        self._limit = limit
        self._tokens: list[int] = []
        self._equal = [0] * min(LONGEST, limit // 2)

    def cut(self, tokens: Sequence[int]) -> int | None:
        """The number of `tokens`, the next ones, up to the limit; None if it is not reached."""
        for number, token in enumerate(tokens, start=1):
            if self._repeats(token):
                return number
        return None

    def _repeats(self, token: int) -> bool:
        """Append a token; true if the last `limit` tokens have one period."""
        length, reached = len(self._tokens), False
        for index, equal in enumerate(self._equal):
            period = index + 1
            same = period <= length and self._tokens[-period] == token
            self._equal[index] = equal + 1 if same else 0
            reached = reached or self._equal[index] + period >= self._limit
        self._tokens.append(token)
        return reached
