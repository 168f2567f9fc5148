"""Trees on the host: what they need of numpy, an expander that knows nodes by their paths."""

from collections.abc import Callable, Sequence

import numpy as np

from mmspec.decoding.sampling import Sampler
from mmspec.decoding.tree_drafting import TreeArrays


def arrays(sampler: Sampler) -> TreeArrays:
    return TreeArrays(sampler, lambda values: np.array(values, dtype=np.int64))


class PathExpander:
    """Knows every node by its path; `project` takes one and returns logits [V]."""

    def __init__(self, project: Callable[[list[int]], np.ndarray]) -> None:
        self.project = project
        self.paths: list[list[int]] = [[]]

    def root(self) -> np.ndarray:
        return self._rows()

    def expand(self, tokens: np.ndarray, parents: np.ndarray | None) -> np.ndarray:
        above = [0] if parents is None else parents.tolist()
        pairs = zip(tokens.tolist(), above, strict=True)
        self.paths = [[*self.paths[parent], token] for token, parent in pairs]
        return self._rows()

    def _rows(self) -> np.ndarray:
        return np.stack([self.project(path) for path in self.paths]).astype(np.float32)


def paths(drafted: Sequence[int], parents: Sequence[int]) -> list[list[int]]:
    """The tokens from the root to each node."""
    found: list[list[int]] = []
    for token, parent in zip(drafted, parents, strict=True):
        found.append([*(found[parent] if parent >= 0 else []), token])
    return found
