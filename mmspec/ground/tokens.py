"""Ids that stand where no token is, and what two lists of tokens share.

Ids of tokens are 0 and more.
"""

from collections.abc import Sequence

NO_TOKEN = -1
"""Stands for an image, for one of its positions, or for what follows the end of an answer."""
PADDING = -2
"""Stands in a column that only longer rows fill."""


def common_prefix(first: Sequence[object], second: Sequence[object]) -> int:
    """The number of leading entries that two sequences share."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))
