"""Drafts without a model: proposes the tokens that followed an earlier occurrence of the last ones.

This is prompt lookup: answers often repeat a text in the prompt or an earlier answer (Yang et al.
2023, arXiv 2304.04487, section 3).
"""

from array import array
from collections.abc import Sequence
from itertools import takewhile

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import HostDraft, Plan
from mmspec.decoding.noise import Noise
from mmspec.ground.tokens import NO_TOKEN

LONGEST, SHORTEST = 4, 2
"""Number of tokens in the longest and in the shortest suffix that is looked up."""


class NgramDrafter:
    """Implements `mmspec.decoding.contract.Drafter` on the host, with one branch.

    Its tokens are all its state: every draft searches them, as bytes, at memory speed.
    """

    def __init__(self) -> None:
        self._tokens = array("i")

    @property
    def length(self) -> int:
        """Number of tokens in the sequence."""
        return len(self._tokens)

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append the segment of the only branch."""
        (segment,) = segments
        self._tokens.extend(segment.token_ids(NO_TOKEN))

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} tokens to {length}")
        del self._tokens[length:]

    def draft(self, plan: Plan, noise: Noise) -> HostDraft | None:  # noqa: ARG002 - nothing is drawn
        """The chain that followed the latest earlier place of the longest suffix, or None."""
        start = self._match()
        tokens = onward(self._tokens, start, plan.gamma) if start else []
        text = list(takewhile(lambda token: token != NO_TOKEN, tokens))
        return HostDraft(text) if text else None

    def commit(self, path: Sequence[int], tokens: Sequence[int], verdict: Verdict) -> None:  # noqa: ARG002
        """Append `tokens` to the sequence."""
        self._tokens.extend(tokens)

    def _match(self) -> int | None:
        """Position after the latest earlier occurrence of the longest suffix; None without one."""
        tokens, width = self._tokens.tobytes(), self._tokens.itemsize
        for size in range(min(LONGEST, self.length - 1), SHORTEST - 1, -1):
            suffix, end = tokens[-size * width :], len(tokens) - width
            start = -1 if NO_TOKEN in self._tokens[-size:] else tokens.rfind(suffix, 0, end)
            while start % width and start > 0:  # the bytes of a match begin within a token
                start = tokens.rfind(suffix, 0, start + len(suffix) - 1)
            if start >= 0:
                return start // width + size
        return None


def onward(tokens: Sequence[int], start: int, count: int) -> list[int]:
    """`count` tokens from position `start` on, repeating that range past the end.

    A draft thus continues a repetition for any length, as overlapping copies in LZ77 do.
    """
    period = len(tokens) - start
    return [tokens[start + node % period] for node in range(count)]
