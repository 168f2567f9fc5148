"""Ids that stand where no token is, and what two lists of tokens share.

Ids of tokens are 0 and more.
"""

from collections.abc import Sequence

NO_TOKEN = -1
"""An image, one of its positions, or the place after an answer that has ended."""
PADDING = -2
"""A column where only a longer row has something."""


def common_prefix(first: Sequence[object], second: Sequence[object]) -> int:
    """The number of leading entries that two sequences share."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))
