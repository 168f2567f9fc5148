"""A head beside a target: what it is fed and what it drafts from.

Shape letters: n columns, r rows fed, k drafted tokens of a path, V vocabulary, H width.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from mmspec import maths
from mmspec.arrays import A, Map
from mmspec.draft import Draft
from mmspec.heads.frontiers import Block, Recurrent, Successive
from mmspec.heads.modules import Layered, Slotted
from mmspec.heads.outline import Outline, Run
from mmspec.heads.seam import Base, Framework
from mmspec.sampling import Sampling
from mmspec.tree import Tree


class ChainFrontier(Protocol[A]):
    """A frontier of logits, which needs no parents where every level is one node."""

    def root(self) -> A:
        """Logits [1, V]."""
        ...

    def expand(self, tokens: A, parents: A | None) -> A:
        """Logits [1, V]."""
        ...


def chain(
    framework: Framework[A],
    frontier: ChainFrontier[A],
    k: int,
    sampling: Sampling,
    draws: Sequence[float],
) -> Draft:
    """Draft k tokens one after another: each the likeliest, or drawn with uniforms [k]."""
    xp, concat, uniforms = framework.xp, framework.concat, framework.floats(draws)
    ids: list[A] = []
    masses: list[A] = []
    for node in range(k):
        logits = frontier.expand(ids[-1], None) if ids else frontier.root()
        if sampling.greedy:
            ids.append(xp.argmax(logits, axis=-1))
            continue
        masses.append(maths.warp(xp, framework.probabilities(logits), sampling))
        ids.append(maths.draw(xp, masses[-1], uniforms[node : node + 1]))
    return framework.chained(concat(ids, 0), concat(masses, 0) if masses else None)


@dataclass(frozen=True, slots=True)
class Setting(Generic[A]):
    """Where a head drafts, and how."""

    base: Base[A]
    sampling: Sampling
    tree: Tree | None = None


class Forwards(ABC, Generic[A]):
    """Implements `mmspec.heads.drafter.Forwards` but for what sets the kinds apart."""

    def __init__(self, framework: Framework[A], setting: Setting[A]) -> None:
        """Read the target of `setting` from now on."""
        self._framework, self._base, self._setting = framework, setting.base, setting

    def propose(self, outline: Outline, start: int, k: int, draws: Sequence[float]) -> Draft:
        """Enqueue a chain of k tokens, or a tree of as many levels."""
        framework, tree = self._framework, self._setting.tree
        with framework.inference():
            if tree:
                frontier = self._frontier(outline, start, k, self._probabilities)
                return framework.grown(frontier, tree, k)
            frontier = self._frontier(outline, start, k, self._base.project)
            return chain(framework, frontier, k, self._setting.sampling, draws)

    @abstractmethod
    def follow(self, outline: Outline, start: int, stop: int) -> None:
        """Take in the slots from `start` to `stop`, before any draft."""

    @abstractmethod
    def _frontier(self, outline: Outline, start: int, k: int, said: Map[A]) -> ChainFrontier[A]:
        """Feed the slots from `start` on; returns what says the first of up to k levels."""

    def _probabilities(self, features: A) -> A:
        return self._framework.probabilities(self._base.project(features))


class LayeredForwards(Forwards[A]):
    """EAGLE, MSD and FLASH: a decoder layer with a cache of its own."""

    def __init__(self, parts: Layered[A], setting: Setting[A]) -> None:
        """Start with an empty cache."""
        super().__init__(parts.framework, setting)
        self._parts, self._layer = parts, parts.layer()

    def follow(self, outline: Outline, start: int, stop: int) -> None:
        """Feed slots to the layer."""
        with self._framework.inference():
            self._advance(outline, start, stop)
            self._layer.settle()

    def _frontier(self, outline: Outline, start: int, k: int, said: Map[A]) -> ChainFrontier[A]:
        last = self._advance(outline, start, outline.slots)
        parts, framework = self._parts, self._framework
        if parts.expansion:
            return Block(framework, parts.expansion(last, k), said)
        tail = self._layer.tail(outline.rows(outline.slots))
        return Recurrent(framework, tail, last, parts.fuse, self._base.embed, said)

    def _advance(self, outline: Outline, start: int, stop: int) -> A:
        """Feed slots; returns the layer's last output [1, H]."""
        x = self._framework.concat([self._rows(run) for run in outline.runs(start, stop)], 0)
        return self._layer.append(x, outline.rows(start))

    def _rows(self, run: Run) -> A:
        """What a run of slots is fed as, [r, H]."""
        base, after = self._base, (run.start + 1, run.stop + 1)
        if run.image is None:
            return self._parts.fuse(base.inputs(*after), base.states(run.start, run.stop))
        if self._parts.compressor:
            return self._parts.compressor(base.states(*run.image))
        return base.states(*after) if self._parts.expansion else base.inputs(*after)


class SlottedForwards(Forwards[A]):
    """Medusa and Hydra: the last hidden state alone, and perhaps the images' embeddings."""

    def __init__(self, parts: Slotted[A], setting: Setting[A]) -> None:
        """Start without having looked at any image."""
        super().__init__(parts.framework, setting)
        self._parts = parts

    def follow(self, outline: Outline, start: int, stop: int) -> None:
        """Do nothing: what has no cache is not behind."""

    def _frontier(self, outline: Outline, _: int, k: int, said: Map[A]) -> ChainFrontier[A]:
        last, parts, framework = outline.columns - 1, self._parts, self._framework
        state = self._seeing(self._base.states(last - 1, last), outline)
        if parts.expansion:
            return Block(framework, parts.expansion(state, k), said)
        token, embed = self._base.inputs(last, last + 1), self._base.embed
        return Successive(framework, parts.successors, state, token, embed, said)

    def _seeing(self, state: A, outline: Outline) -> A:
        """The state [1, H] with what the head reads off the images added."""
        if not self._parts.sight or not outline.images:
            return state
        images = [self._base.inputs(*image) for image in outline.images]
        return self._parts.sight(state, self._framework.concat(images, 0))
