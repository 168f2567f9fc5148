"""A target and a drafter on the host, without tensors or caches: slow and obviously right.

The next-token logits depend, through a seeded generator, on the last three items of the sequence
and, less, on every image in it.
`fail_at` makes any call raise before it changes anything, or after, to test interrupts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from scripted_tree import ARRAYS, PathFrontier, paths, top

from mmspec import maths
from mmspec.adaptive import Adaptation, Evidence, Tally
from mmspec.draft import HostDraft, Verdict, agreed, judged
from mmspec.growth import grow
from mmspec.sampling import GREEDY, Sampling
from mmspec.seam import Segment
from mmspec.tree import Tree

Item = int | str


@dataclass(frozen=True)
class ScriptedFeatures:
    digest: str
    positions: int = 4

    def pooled(self, positions: int) -> "ScriptedFeatures":
        return ScriptedFeatures(f"{self.digest}/{positions}", positions)


def items(segment: Segment, image_token: int) -> list[Item]:
    """Tokens, each visual position standing for its image's content."""
    contents = [f.digest for f in segment.features for _ in range(f.positions)]
    waiting = iter(contents)
    return [next(waiting) if t == image_token else t for t in segment.tokens]


def logits(seed: int, sequence: Sequence[Item], vocabulary: int) -> np.ndarray:
    images = [item for item in sequence if isinstance(item, str)]
    recent = 2 * noise((seed, *sequence[-3:]), vocabulary)
    return recent + noise((seed, *images), vocabulary) if images else recent


def glance(sequence: Sequence[Item]) -> float:
    """The share of attention that the last item gives to images: any number from 0 to 1."""
    return float(abs(noise(("look", *sequence[-3:]), 1)[0]) % 1)


def noise(key: Sequence[Item], size: int) -> np.ndarray:
    digest = sha256("/".join(map(str, key)).encode()).digest()
    return np.random.default_rng(list(digest)).normal(size=size).astype(np.float32)


def no_fault(_: str) -> None:
    """Never fails."""


@dataclass
class ScriptedTarget:
    vocabulary: int = 11
    image_token: int = 99
    seed: int = 0
    sampling: Sampling = GREEDY
    watch: bool = False
    fault: Callable[[str], None] = no_fault
    sequence: list[Item] = field(default_factory=list)
    fed: int = 0
    verdict: Verdict | None = None

    @property
    def length(self) -> int:
        return len(self.sequence)

    def extend(self, segment: Segment) -> None:
        self.fault("target.extend")
        self.sequence = self.sequence + items(segment, self.image_token)
        self.fed += len(segment.tokens)
        self.fault("target.extended")

    def rewind(self, length: int) -> None:
        assert 0 <= length <= self.length
        self.fault("target.rewind")
        self.sequence = self.sequence[:length]

    def logits(self) -> np.ndarray:
        return logits(self.seed, self.sequence, self.vocabulary)

    def verify(self, draft: "ScriptedDraft | HostDraft | None", draws: Sequence[float]) -> Verdict:
        self.fault("target.verify")
        evidence = draft.evidence if isinstance(draft, ScriptedDraft) else None
        drafted = draft.tokens if draft else []
        tree = draft.parents if isinstance(draft, ScriptedDraft) else None
        parents = list(range(-1, len(drafted) - 1)) if tree is None else tree
        said = [[], *paths(drafted, parents)]
        rows = np.stack([logits(self.seed, self.sequence + s, self.vocabulary) for s in said])
        if tree is None:
            self.verdict = Verdict(drafted, parents, *self._judged(rows, draft, draws))
        else:
            self.verdict = self._judged_tree(rows, drafted, parents, draws)
        if evidence:
            evidence.logits = rows[:-1]
            self.verdict.weights.extend(evidence.weights.tolist())
        self.verdict.seen.extend(self._seen(said))
        return self.verdict

    def _judged_tree(self, rows, drafted, parents, draws):
        if self.sampling.greedy:
            return agreed(drafted, parents, rows.argmax(-1).tolist())
        p = maths.warp(np, maths.softmax(np, rows), self.sampling)
        arrays = np.array(drafted), np.array(parents), np.array(draws, dtype=np.float32)
        scores = maths.judge_tree(np, p, *arrays)
        return judged(drafted, parents, *(each.tolist() for each in scores))

    def _seen(self, said: list[list[int]]) -> list[float]:
        if not self.watch or not any(isinstance(item, str) for item in self.sequence):
            return []
        return [glance(self.sequence + each) for each in said]

    def _judged(self, rows, draft, draws):
        if self.sampling.greedy:
            best = rows.argmax(-1).tolist()
            drafted = draft.tokens if draft else []
            return [float(a == b) for a, b in zip(best, drafted, strict=False)], best
        p = maths.warp(np, maths.softmax(np, rows), self.sampling)
        uniforms = np.array(draws, dtype=np.float32)
        if not draft:
            return [], maths.draw(np, p, uniforms).tolist()
        tokens = np.array(draft.tokens)
        hosted = isinstance(draft, HostDraft)
        q = maths.point_mass(np, tokens, p[:-1]) if hosted else np.stack(draft.q)
        accept, fallback = maths.judge(np, p, q, tokens, uniforms)
        return accept.tolist(), fallback.tolist()

    def commit(self, path: Sequence[int], token: int) -> None:
        self.fault("target.commit")
        self.sequence = self.sequence + self.verdict.along(path) + [token]
        self.verdict = None
        self.fault("target.committed")


@dataclass
class ScriptedDraft:
    tokens: list[int]
    q: list[np.ndarray]
    evidence: Evidence | None = None
    parents: list[int] | None = None
    levels: int = 0

    @property
    def size(self) -> int:
        return len(self.tokens)

    @property
    def depth(self) -> int:
        return self.size if self.parents is None else self.levels


@dataclass
class ScriptedDrafter:
    """Knows the target's own rule, and follows another seed on one sequence in `wrong_every`."""

    rows: int = 1
    vocabulary: int = 11
    image_token: int = 99
    seed: int = 0
    other_seed: int = 5
    wrong_every: int = 3
    sampling: Sampling = GREEDY
    adaptation: Adaptation | None = None
    tree: Tree | None = None
    fault: Callable[[str], None] = no_fault
    sequences: list[list[Item]] = field(default_factory=list)
    columns: list[Item] = field(default_factory=list)
    row_lengths_seen: list[list[int]] = field(default_factory=list)
    fed: int = 0

    def __post_init__(self) -> None:
        self.marks: list[list[int]] = [[0] * self.rows]
        self.sequences = [[] for _ in range(self.rows)]
        self.drafted: ScriptedDraft | None = None
        self.tally: Tally | None = None
        if self.adaptation and self.rows > 1:
            candidates = np.array(self.adaptation.candidates(self.rows), dtype=np.float32)
            self.tally = Tally(np, self.adaptation, candidates, top)

    @property
    def length(self) -> int:
        return len(self.marks) - 1

    @property
    def row_lengths(self) -> list[int]:
        return list(self.marks[-1])

    def extend(self, segments: Sequence[Segment]) -> None:
        self.fault("drafter.extend")
        assert len({segment.tokens[-1] for segment in segments}) == 1
        rows = [items(segment, self.image_token) for segment in segments]
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
        self.drafted = None
        marks = self.marks[: length + 1]
        self.sequences = [s[:n] for s, n in zip(self.sequences, marks[-1], strict=True)]
        self.marks = marks

    def draft(self, k: int, weights: Sequence[float], draws: Sequence[float]) -> ScriptedDraft:
        self.fault("drafter.draft")
        assert len(weights) == self.rows
        assert abs(sum(weights) - 1) < 1e-6
        mixture, tally = np.array(weights, dtype=np.float32), self.tally
        if tally:
            tally = tally.settled()
            mixture = tally.weights(mixture)
        if self.tree:
            self.drafted = self._grown(k, mixture)
            return self.drafted
        tokens: list[int] = []
        qs, said = [], []
        for step in range(k):
            rows = np.stack([self._logits([*s, *tokens]) for s in self.sequences])
            said.append(maths.softmax(np, rows))
            q = maths.mix(np, mixture, said[-1])[None]
            if self.sampling.greedy:
                token = q.argmax(-1)
                q = maths.point_mass(np, token, q)
            else:
                q = maths.warp(np, q, self.sampling)
                token = maths.draw(np, q, np.array(draws[step : step + 1], dtype=np.float32))
            tokens.append(int(token[0]))
            qs.append(q[0])
        evidence = Evidence(mixture, np.stack(said)) if tally else None
        self.drafted, self.tally = ScriptedDraft(tokens, qs, evidence), tally
        return self.drafted

    def _grown(self, k: int, mixture: np.ndarray) -> ScriptedDraft:
        def said(path):
            rows = np.stack([self._logits([*s, *path]) for s in self.sequences])
            return maths.mix(np, mixture, maths.softmax(np, rows))

        ids, parents, depth = grow(ARRAYS, PathFrontier(said), self.tree, k)
        return ScriptedDraft(ids.tolist(), [], None, parents.tolist(), depth)

    def _logits(self, sequence: list[Item]) -> np.ndarray:
        wrong = len(sequence) % self.wrong_every == 0
        return logits(self.other_seed if wrong else self.seed, sequence, self.vocabulary)

    def commit(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        self.fault("drafter.commit")
        last = self.marks[-1]
        marks = [[n + i for n in last] for i in range(1, len(tokens) + 1)]
        self.sequences = [s + list(tokens) for s in self.sequences]
        self.marks = self.marks + marks
        if self.tally and self.drafted:
            self.tally = self.tally.noted(self.drafted.evidence, len(tokens))
        self.drafted = None

    def forget(self) -> None:
        self.fault("drafter.forget")
        self.tally = self.tally.forgotten() if self.tally else None
