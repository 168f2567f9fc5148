"""Drafting without a model: what followed the last tokens where they stood before.

Prompt lookup: the answer to a question about a text often repeats the text, and a later answer
an earlier one (Yang et al. 2023, arXiv 2304.04487, section 3).
"""

from collections.abc import Iterator, Sequence

from mmspec.draft import HostDraft
from mmspec.seam import Segment

LONGEST, SHORTEST = 4, 2
"""Lengths of the suffixes looked up, the longest first."""


class NgramDrafter:
    """Implements `mmspec.seam.Drafter` on the host, with one branch.

    `_tokens` alone is the sequence.  `_ends` says where its n-grams end, in ascending order, for
    all that end at `_indexed` or before; it is brought up to date when a draft is asked for, so
    that a round costs its own tokens and never the whole history.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], list[int]] = {}
        self._indexed = 0

    @property
    def length(self) -> int:
        """Tokens in the sequence."""
        return len(self._tokens)

    @property
    def row_lengths(self) -> list[int]:
        """[1] the same."""
        return [len(self._tokens)]

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append the only branch's segment."""
        (segment,) = segments
        self._tokens.extend(segment.tokens)

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} tokens to {length}")
        last = min(self._indexed + 1, self.length)  # one more, should an update have been broken
        for end in range(last, max(length, 1) - 1, -1):
            for gram in self._grams(end):
                if self._ends.get(gram, [])[-1:] == [end]:
                    self._ends[gram].pop()
            self._indexed = min(self._indexed, end - 1)
        del self._tokens[length:]

    def draft(
        self,
        k: int,
        weights: Sequence[float],  # noqa: ARG002 - one branch, and nothing is drawn
        draws: Sequence[float],  # noqa: ARG002
    ) -> HostDraft | None:
        """The k tokens after the latest earlier occurrence of the longest suffix; None without."""
        self._index()
        start = self._match()
        return HostDraft(onward(self._tokens, start, k)) if start else None

    def commit(
        self,
        path: Sequence[int],  # noqa: ARG002 - `tokens` begin with those on it
        tokens: Sequence[int],
    ) -> None:
        """Append what the target kept."""
        self._tokens.extend(tokens)

    def forget(self) -> None:
        """Nothing to forget: nothing adapts."""

    def _index(self) -> None:
        """Note the n-grams that end before the last token; those at it are being looked up."""
        for end in range(self._indexed + 1, self.length):
            for gram in self._grams(end):
                ends = self._ends.setdefault(gram, [])
                if ends[-1:] != [end]:  # an interrupted update has noted it already
                    ends.append(end)
            self._indexed = end

    def _grams(self, end: int) -> Iterator[tuple[int, ...]]:
        """The n-grams that end before token `end`, the longest first."""
        for size in range(min(LONGEST, end), SHORTEST - 1, -1):
            yield tuple(self._tokens[end - size : end])

    def _match(self) -> int | None:
        """Where the latest earlier occurrence of the longest known suffix ends."""
        found = (self._ends.get(gram) for gram in self._grams(self.length))
        return next((ends[-1] for ends in found if ends), None)


def onward(tokens: Sequence[int], start: int, count: int) -> list[int]:
    """`count` tokens from `start` (below the end) on, repeating from there past the end.

    A loop of the text thus goes on for as long as is asked, as in LZ77's overlapping copies.
    """
    period = len(tokens) - start
    return [tokens[start + node % period] for node in range(count)]
