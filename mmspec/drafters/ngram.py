"""Drafts without a model: proposes the tokens that followed an earlier occurrence of the last ones.

This is prompt lookup: answers often repeat a text in the prompt or an earlier answer (Yang et al.
2023, arXiv 2304.04487, section 3).
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from mmspec.decoding.adaptive_weights import Evidence
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.noise import Noise
from mmspec.seam import Segment

LONGEST, SHORTEST = 4, 2
"""Number of tokens in the longest and in the shortest suffix that is looked up."""
IMAGE = -1
"""Id that stands for an image's positions, which match nothing and are never proposed."""


class NgramDrafter:
    """Implements `mmspec.seam.Drafter` on the host, with one branch.

    `_tokens` alone is the sequence. `_ends` maps each n-gram that ends at or before `_indexed` to
    its end positions, ascending. `draft` updates it, so that a round's cost grows with the round's
    own tokens, not with the whole history.
    """

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], list[int]] = {}
        self._indexed = 0

    @property
    def length(self) -> int:
        """Number of tokens in the sequence."""
        return len(self._tokens)

    @property
    def row_lengths(self) -> list[int]:
        """[1] the number of tokens in the sequence."""
        return [len(self._tokens)]

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append the segment of the only branch."""
        (segment,) = segments
        self._tokens.extend(segment.token_ids(IMAGE))

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
        weights: Sequence[float],  # noqa: ARG002 - one branch, and it is no distribution
        noise: Noise,  # noqa: ARG002
    ) -> HostDraft | None:
        """The k tokens that followed the latest earlier place of the longest suffix, or None."""
        self._index()
        start = self._match()
        tokens = onward(self._tokens, start, k) if start else []
        text = list(takewhile(lambda token: token != IMAGE, tokens))
        return HostDraft(text) if text else None

    def commit(
        self,
        path: Sequence[int],  # noqa: ARG002 - `tokens` begin with those on it
        tokens: Sequence[int],
        evidence: Evidence | None = None,  # noqa: ARG002 - no weights are fitted
    ) -> None:
        """Append `tokens` to the sequence."""
        self._tokens.extend(tokens)

    def forget(self) -> None:
        """Do nothing: n-gram lookup does not adapt."""

    def _index(self) -> None:
        """Index the n-grams that end before the last token; those at the end are the query."""
        for end in range(self._indexed + 1, self.length):
            for gram in self._grams(end):
                ends = self._ends.setdefault(gram, [])
                if ends[-1:] != [end]:  # an interrupted update has noted it already
                    ends.append(end)
            self._indexed = end

    def _grams(self, end: int) -> Iterator[tuple[int, ...]]:
        """The n-grams that end before position `end` and contain no image, the longest first."""
        for size in range(min(LONGEST, end), SHORTEST - 1, -1):
            gram = tuple(self._tokens[end - size : end])
            if IMAGE not in gram:
                yield gram

    def _match(self) -> int | None:
        """Position after the latest earlier occurrence of the longest indexed suffix."""
        matches = (self._ends.get(gram) for gram in self._grams(self.length))
        return next((ends[-1] for ends in matches if ends), None)


def onward(tokens: Sequence[int], start: int, count: int) -> list[int]:
    """`count` tokens from position `start` on, repeating that range past the end.

    A draft thus continues a repetition for any length, as overlapping copies in LZ77 do.
    """
    period = len(tokens) - start
    return [tokens[start + node % period] for node in range(count)]
