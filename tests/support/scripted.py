"""A target and a draft model on the host, without tensors or caches: slow and obviously right.

The next-token logits depend, through a seeded generator, on the last three items of the sequence
and, less, on every image in it.
`fail_at` makes any call raise before it changes anything, or after, to test interrupts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256

import numpy as np

from mmspec.decoding import formulas
from mmspec.decoding.acceptance import Logits, Verdict
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import DeviceDraft, Draft, Plan
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from mmspec.drafters.view_drafter import ViewDrafter

Item = int | str


@dataclass(frozen=True)
class ScriptedFeatures:
    digest: str
    positions: int = 4
    nbytes: int = 16

    def pool(self, positions: int) -> "ScriptedFeatures":
        return ScriptedFeatures(f"{self.digest}/{positions}", positions)


def items(segment: Segment) -> list[Item]:
    """Tokens, each visual position standing for its image's content."""
    parts = segment.parts
    rows = [[p.digest] * p.positions if isinstance(p, ScriptedFeatures) else p for p in parts]
    return [item for row in rows for item in row]


def logits(seed: int, sequence: Sequence[Item], vocabulary: int) -> np.ndarray:
    recent = 2 * normals((seed, *sequence[-3:]), vocabulary)
    if str not in map(type, sequence):
        return recent
    images = [item for item in sequence if isinstance(item, str)]
    return recent + normals((seed, *images), vocabulary)


@lru_cache(maxsize=10_000)
def normals(key: Sequence[Item], size: int) -> np.ndarray:
    digest = sha256("/".join(map(str, key)).encode()).digest()
    return np.random.default_rng(list(digest)).normal(size=size).astype(np.float32)


def no_fault(_: str) -> None:
    """Never fails."""


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


@dataclass
class ScriptedTarget:
    vocabulary: int = 11
    seed: int = 0
    sampling: Sampling = GREEDY
    fault: Callable[[str], None] = no_fault
    sequence: list[Item] = field(default_factory=list)
    fed: int = 0
    verdict: Verdict | None = None

    @property
    def length(self) -> int:
        return len(self.sequence)

    def extend(self, segment: Segment) -> None:
        self.fault("target.extend")
        self.sequence = self.sequence + items(segment)
        self.fed += len(segment)
        self.fault("target.extended")

    def rewind(self, length: int) -> None:
        assert 0 <= length <= self.length
        self.fault("target.rewind")
        self.sequence = self.sequence[:length]

    def logits(self) -> np.ndarray:
        return logits(self.seed, self.sequence, self.vocabulary)

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:
        self.fault("target.verify")
        assert noise.position == self.length or self.sampling.greedy
        own = HOST.own_draft(draft, self.vocabulary)
        drafted = own.ids.tolist() if own else []
        tree = own.parents if own else None
        parents = list(range(-1, len(drafted) - 1)) if tree is None else tree.tolist()
        known = [[], *paths(drafted, parents)]
        rows = np.stack(
            [logits(self.seed, self.sequence + path, self.vocabulary) for path in known]
        )
        depths = [len(path) for path in known]
        best = HOST.sampler(self.sampling).tokens(rows, HOST.keys(noise, max(depths) + 1)[depths])
        self.verdict = Verdict(drafted, parents, best.tolist(), Logits(rows, np.asarray))
        return self.verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        self.fault("target.commit")
        self.sequence = self.sequence + self.verdict.along(path) + [token]
        self.verdict = None
        self.fault("target.committed")


@dataclass
class ScriptedBranches:
    """Knows the target's own rule, and follows another seed on one sequence in `wrong_every`."""

    rows: int = 1
    vocabulary: int = 11
    seed: int = 0
    other_seed: int = 5
    wrong_every: int = 3
    sampling: Sampling = GREEDY
    tree: Tree | None = None
    probabilities: bool = False
    fault: Callable[[str], None] = no_fault
    fed: int = 0
    framework = HOST

    def __post_init__(self) -> None:
        self.marks: list[list[int]] = [[0] * self.rows]
        self.sequences: list[list[Item]] = [[] for _ in range(self.rows)]

    @property
    def length(self) -> int:
        return len(self.marks) - 1

    @property
    def row_lengths(self) -> list[int]:
        return list(self.marks[-1])

    def extend(self, segments: Sequence[Segment]) -> None:
        self.fault("drafter.extend")
        [last] = {segment.last for segment in segments}
        assert last is not None, "all segments end in the same token"
        rows = [items(segment) for segment in segments]
        width = max(map(len, rows))
        marks = [
            [mark + min(column, len(row)) for mark, row in zip(self.marks[-1], rows, strict=True)]
            for column in range(1, width + 1)
        ]
        sequences = [old + new for old, new in zip(self.sequences, rows, strict=True)]
        self.sequences, self.marks = sequences, self.marks + marks
        self.fed += width

    def rewind(self, length: int) -> None:
        assert 0 <= length <= self.length
        self.fault("drafter.rewind")
        marks = self.marks[: length + 1]
        self.sequences = [s[:n] for s, n in zip(self.sequences, marks[-1], strict=True)]
        self.marks = marks

    def draft(self, plan: Plan, weights: np.ndarray, noise: Noise) -> DeviceDraft[np.ndarray]:
        self.fault("drafter.draft")
        assert len(weights) == self.rows
        assert abs(sum(weights) - 1) < 1e-6
        record: list[np.ndarray] = []

        def project(path: list[int]) -> np.ndarray:
            rows = np.stack([self.logits([*s, *path]) for s in self.sequences])
            record.append(formulas.softmax(np, rows))
            return np.log(formulas.mix(weights, record[-1]))

        tree = self.tree and self.tree.within(plan.nodes, plan.gamma)
        draft = HOST.draft(
            HOST.sampler(self.sampling), PathExpander(project), tree, HOST.keys(noise, plan.gamma)
        )
        q = np.stack(record) if self.probabilities else None
        return replace(draft, branch_probabilities=q)

    def logits(self, sequence: list[Item]) -> np.ndarray:
        wrong = len(sequence) % self.wrong_every == 0
        return logits(self.other_seed if wrong else self.seed, sequence, self.vocabulary)

    def commit(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        self.fault("drafter.commit")
        last = self.marks[-1]
        marks = [[n + i for n in last] for i in range(1, len(tokens) + 1)]
        self.sequences = [s + list(tokens) for s in self.sequences]
        self.marks = self.marks + marks


class ScriptedDrafter(ViewDrafter[np.ndarray]):
    """The views' own drafter over scripted branches, with equal weights."""

    def __init__(
        self, rows: int = 1, *, positions: int | None = None, adaptive: bool = False, **settings
    ) -> None:
        self.branches = ScriptedBranches(rows, probabilities=adaptive, **settings)
        super().__init__(self.branches, [1 / rows] * rows, positions, adaptive=adaptive)

    @property
    def sequences(self) -> list[list[Item]]:
        return self.branches.sequences

    @property
    def fed(self) -> int:
        return self.branches.fed
