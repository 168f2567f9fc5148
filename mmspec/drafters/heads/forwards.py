"""Computes a head's input and drafts.

Shape letters: n columns, r rows, w nodes expanded at once, K predicted positions, V vocabulary, H
width.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import accumulate
from operator import mul
from typing import Any, Generic, TypeVar

import numpy as np

from mmspec.decoding.contract import HiddenStates
from mmspec.decoding.draft import Draft, Plan
from mmspec.decoding.ensemble import Fuse, TailExpander, parent_rows
from mmspec.decoding.framework import Framework
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.decoding.tree_drafting import Expander
from mmspec.drafters.heads import modules
from mmspec.drafters.heads.backend_interface import CachedLayer
from mmspec.drafters.heads.packing import Outline, Run, Span
from mmspec.ground.arrays import A, Map, Positions


class BlockExpander(Generic[A]):
    """Medusa, FLASH and DFlash: predicts all positions at once, whatever tokens are drafted."""

    def __init__(self, framework: Framework[A], features: A, project: Map[A]) -> None:
        """features: [K, H], one for each predicted position."""
        self._framework = framework
        self.rows = project(features)
        self._level = 0

    def root(self) -> A:
        """Logits [1, V] of the token after the sequence."""
        return self.rows[:1]

    def expand(self, tokens: A, parents: A | None) -> A:  # noqa: ARG002
        """Logits [w, V] of the next position, the same after every node."""
        self._level += 1
        row = self.rows[self._level : self._level + 1]
        same: A = self._framework.xp.broadcast_to(row, (len(tokens), row.shape[1]))
        return same


class SuccessiveExpander(Generic[A]):
    """Hydra: one hidden state, and a module per position that also reads the tokens before it."""

    def __init__(
        self,
        framework: Framework[A],
        base: HiddenStates[A],
        heads: Sequence[modules.Succeed[A]],
        state: A,
        last: A,
    ) -> None:
        """state: hidden state [1, H]. last: embedding [1, H] of the token that follows it."""
        self._framework, self._base = framework, base
        self._heads, self._state = iter(heads), state
        self._inputs = framework.concat([state, last], -1)

    def root(self) -> A:
        """Logits [1, V] of the token after the sequence."""
        return self._base.project(next(self._heads)(self._state, self._inputs))

    def expand(self, tokens: A, parents: A | None) -> A:
        """Logits [w, V] of the token after each of w nodes of the next level."""
        inputs = parent_rows(self._framework, self._inputs, parents)
        self._inputs = self._framework.concat([inputs, self._base.embed(tokens)], -1)
        return self._base.project(next(self._heads)(self._state, self._inputs))


P = TypeVar("P", bound=modules.Modules[Any])
"""The modules of a kind of head."""


class HeadForwards(ABC, Generic[P, A]):
    """A head's computation over the target's hidden states, which hold every column of a call."""

    def __init__(
        self, parts: P, base: HiddenStates[A], sampling: Sampling, tree: Tree | None
    ) -> None:
        """base: the target's hidden states. tree: the shape of drafts; None drafts chains."""
        self._framework: Framework[A] = parts.framework
        self._parts, self._base, self._tree = parts, base, tree
        self._sampler = self._framework.sampler(sampling)

    def propose(self, outline: Outline, start: int, plan: Plan, noise: Noise) -> Draft:
        """Feed the slots from `start` on, then enqueue the draft of a plan.

        The draft's rows are dropped from the head's cache afterwards.
        """
        framework, gamma = self._framework, plan.gamma
        with framework.inference():
            expander, keys = self._expander(outline, start, gamma), framework.keys(noise, gamma)
            tree = self._tree.within(plan.nodes, gamma) if self._tree else None
            draft = framework.draft(self._sampler, expander, tree, keys)
            if plan.pays and not tree and (arrays := self._chances(expander, draft.ids, keys)):
                (chances,) = framework.read(*arrays)
                return draft.first(plan.pays([*accumulate(chances, mul)]))
            return draft

    def _chances(self, expander: Expander, ids: A, keys: A) -> list[A]:  # noqa: ARG002
        """How likely each token [n] of a chain is accepted if all before are; empty if unknown."""
        return []

    @abstractmethod
    def follow(self, outline: Outline, start: int, stop: int) -> None:
        """Feed the slots from `start` up to `stop` to the head's cache, if it has one."""

    @abstractmethod
    def _expander(self, outline: Outline, start: int, gamma: int) -> Expander:
        """Feed the slots from `start` on; returns an expander for drafts of this depth."""


Q = TypeVar("Q", bound=modules.LayerModules[Any] | modules.Eagle3Modules[Any])
"""The modules of a kind of head with a decoder layer."""


class CachedForwards(HeadForwards[Q, A]):
    """A decoder layer with its own cache."""

    @cached_property
    def _layer(self) -> CachedLayer[A]:
        return self._parts.layer()

    def follow(self, outline: Outline, start: int, stop: int) -> None:
        """Feed the slots from `start` up to `stop` to the decoder layer."""
        with self._framework.inference():
            self._advance(outline, start, stop)
            self._layer.settle()

    def _expander(self, outline: Outline, start: int, gamma: int) -> Expander:  # noqa: ARG002
        slots = outline.slots
        last = self._advance(outline, start, slots)
        position = outline.position(slots)
        if self._parts.planes:
            position = int(self._base.positions(slots, slots + 1)[0, 0])
        tail = self._layer.tail(outline.rows(slots), position)
        embed, fuse = self._base.embed, self._fuse(outline)
        return TailExpander(self._framework, tail, last, embed, self._project, fuse)

    def _fuse(self, outline: Outline) -> Fuse[A]:  # noqa: ARG002
        """Function that makes what the layer is fed for drafted tokens."""
        return self._parts.fuse

    def _project(self, features: A) -> A:
        """Logits [n, V] of the layer's outputs [n, H]."""
        return self._base.project(features)

    def _advance(self, outline: Outline, start: int, stop: int) -> A:
        """Feed the slots from `start` up to `stop`; returns the layer's last output [1, H]."""
        rows = [self._rows(outline, run) for run in outline.runs(start, stop)]
        x = self._framework.concat(rows, 0)
        return self._layer.append(x, outline.rows(start), self._positions(outline, start, stop))

    def _positions(self, outline: Outline, start: int, stop: int) -> Positions | None:
        """Rotary positions [3, r] of a range of slots; None if they are the rows of the cache.

        With M-RoPE a slot stands where the target has its column, as in vLLM.
        """
        if self._parts.planes:
            return self._base.positions(start, stop)
        if not outline.in_place:
            return None
        return np.repeat([outline.positions(start, stop)], 3, axis=0)

    @abstractmethod
    def _rows(self, outline: Outline, run: Run) -> A:
        """The layer's input [r, ...] for a run of slots."""


class LayerForwards(CachedForwards[modules.LayerModules[A], A]):
    """EAGLE, MSD and FLASH: what the layer reads of states after the target's last norm."""

    def _expander(self, outline: Outline, start: int, gamma: int) -> Expander:
        if self._parts.expansion is None:
            return super()._expander(outline, start, gamma)
        features = self._parts.expansion(self._advance(outline, start, outline.slots), gamma)
        return BlockExpander(self._framework, features, self._project)

    def _rows(self, outline: Outline, run: Run) -> A:  # noqa: ARG002
        base, after = self._base, (run.start + 1, run.stop + 1)
        if run.image is None:
            return self._parts.fuse(base.embeddings(*after), base.states(run.start, run.stop))
        if self._parts.compressor:
            return self._parts.compressor(base.states(*run.image))
        return base.states(*after) if self._parts.expansion else base.embeddings(*after)


class MtpForwards(CachedForwards[modules.MtpModules[A], A]):
    """Qwen3.5's own drafter: its normalised output stands in for a hidden state."""

    def _fuse(self, outline: Outline) -> Fuse[A]:  # noqa: ARG002
        return self._parts.follow

    def _project(self, features: A) -> A:
        return self._base.project(self._parts.norm(features))

    def _rows(self, outline: Outline, run: Run) -> A:  # noqa: ARG002
        embeddings = self._base.embeddings(run.start + 1, run.stop + 1)
        return self._parts.fuse(embeddings, self._base.states(run.start, run.stop))


class ViSpecForwards(CachedForwards[modules.ViSpecModules[A], A]):
    """ViSpec: few rows for an image, and its last vector beside the states of all later slots."""

    @cached_property
    def _views(self) -> dict[Span, A]:
        """The last vector [1, H] of each image by its columns, from when its slots were fed."""
        return {}

    def _fuse(self, outline: Outline) -> Fuse[A]:
        return partial(self._join, outline.last_image(outline.slots))

    def _rows(self, outline: Outline, run: Run) -> A:
        base = self._base
        if run.image is None:
            embeddings = base.embeddings(run.start + 1, run.stop + 1)
            image = outline.last_image(run.start)
            return self._join(image, embeddings, base.states(run.start, run.stop))
        vectors = self._parts.views(base.embeddings(*run.image))
        self._views[run.image] = vectors[outline.image_rows :]
        return vectors[: outline.image_rows]

    def _join(self, image: Span | None, embeddings: A, states: A) -> A:
        view = None if image is None else self._views[image]
        return self._parts.fuse(embeddings, self._parts.join(states, view))


class Eagle3Forwards(CachedForwards[modules.Eagle3Modules[A], A]):
    """EAGLE-3: the layer reads the states of several layers, and the head has its own logits."""

    def _project(self, features: A) -> A:
        return self._parts.project(features)

    def _rows(self, outline: Outline, run: Run) -> A:  # noqa: ARG002
        base, count = self._base, run.stop - run.start
        if run.image is None:
            embeddings = base.embeddings(run.start + 1, run.stop + 1)
        else:  # vLLM, speculators and SpecForge embed the image's token, not its features
            embeddings = base.embed(self._framework.integers([self._parts.image_id] * count))
        return self._parts.pair(embeddings, base.layer_outputs(run.start, run.stop))


class SlotForwards(HeadForwards[modules.SlotModules[A], A]):
    """Medusa and Hydra: read the last hidden state, Medusa perhaps the images' embeddings too."""

    def follow(self, outline: Outline, start: int, stop: int) -> None:
        """Do nothing: the head has no cache."""

    def _expander(self, outline: Outline, _: int, gamma: int) -> Expander:
        last, parts, base = outline.columns - 1, self._parts, self._base
        state = base.states(last - 1, last)
        if parts.add_images and outline.images:
            images = [base.embeddings(*image) for image in outline.images]
            state = parts.add_images(state, self._framework.concat(images, 0))
        if parts.expansion:
            return BlockExpander(self._framework, parts.expansion(state, gamma), base.project)
        token = base.embeddings(last, last + 1)
        return SuccessiveExpander(self._framework, base, parts.successors, state, token)
