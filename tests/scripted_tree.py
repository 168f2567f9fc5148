"""Trees on the host: what growth needs of numpy, and a frontier that knows nodes by their paths."""

from collections.abc import Callable, Sequence

import numpy as np

from mmspec.growth import Arrays


def top(p: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.argsort(-p, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(p, chosen, axis=-1), chosen


ARRAYS = Arrays(np, top, lambda values: np.array(values, dtype=np.int64))


class PathFrontier:
    """Knows every node by its path; `said` is told one and returns probabilities [V]."""

    def __init__(self, said: Callable[[list[int]], np.ndarray]) -> None:
        self.said = said
        self.paths: list[list[int]] = [[]]

    def root(self) -> np.ndarray:
        return self._rows()

    def expand(self, tokens: np.ndarray, parents: np.ndarray) -> np.ndarray:
        pairs = zip(tokens.tolist(), parents.tolist(), strict=True)
        self.paths = [[*self.paths[parent], token] for token, parent in pairs]
        return self._rows()

    def _rows(self) -> np.ndarray:
        return np.stack([self.said(path) for path in self.paths]).astype(np.float32)


def paths(drafted: Sequence[int], parents: Sequence[int]) -> list[list[int]]:
    """The tokens from the root to each node."""
    found: list[list[int]] = []
    for token, parent in zip(drafted, parents, strict=True):
        found.append([*(found[parent] if parent >= 0 else []), token])
    return found
