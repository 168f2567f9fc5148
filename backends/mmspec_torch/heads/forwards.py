"""A head beside a target: what it is fed and what it drafts from.

Shape letters: n columns, r rows fed, k drafted tokens of a path, V vocabulary, H width.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import array_api_compat.torch as xp
import torch
from torch import Tensor

from mmspec import maths
from mmspec.heads.outline import Outline, Run
from mmspec.sampling import Sampling
from mmspec.tree import Tree
from mmspec_torch.device import upload
from mmspec_torch.draft import TorchDraft
from mmspec_torch.growth import grown
from mmspec_torch.heads.frontiers import Block, Recurrent, Said, Successive
from mmspec_torch.heads.modules import Layered, Slotted
from mmspec_torch.llama import Llama, chunks
from mmspec_torch.target import TorchTarget


class ChainFrontier(Protocol):
    """A frontier of logits, which needs no parents where every level is one node."""

    def root(self) -> Tensor:
        """Logits [1, V]."""
        ...

    def expand(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        """Logits [1, V]."""
        ...


def chain(frontier: ChainFrontier, k: int, sampling: Sampling, uniforms: Tensor) -> TorchDraft:
    """Draft k tokens one after another: each the likeliest, or drawn with uniforms [k]."""
    ids: list[Tensor] = []
    masses: list[Tensor] = []
    for node in range(k):
        logits = frontier.expand(ids[-1], None) if ids else frontier.root()
        if sampling.greedy:
            ids.append(logits.argmax(dim=-1))
            continue
        masses.append(maths.warp(xp, torch.softmax(logits.float(), dim=-1), sampling))
        ids.append(maths.draw(xp, masses[-1], uniforms[node : node + 1]))
    return TorchDraft(torch.cat(ids), torch.cat(masses) if masses else None)


class Forwards(ABC):
    """Implements `mmspec.heads.drafter.Forwards` but for what sets the kinds apart."""

    def __init__(
        self, llama: Llama, target: TorchTarget, sampling: Sampling, tree: Tree | None
    ) -> None:
        """Read `target`, whose decoder is `llama`, from now on."""
        target.keep_trail()
        self._llama, self._target, self._sampling, self._tree = llama, target, sampling, tree

    @torch.inference_mode()
    def propose(self, outline: Outline, start: int, k: int, draws: Sequence[float]) -> TorchDraft:
        """Enqueue a chain of k tokens, or a tree of as many levels."""
        device = self._llama.device
        if self._tree:
            frontier = self._frontier(outline, start, k, self._probabilities)
            return grown(frontier, self._tree, k, device)
        frontier = self._frontier(outline, start, k, self._llama.project)
        return chain(frontier, k, self._sampling, upload(draws, torch.float32, device))

    @abstractmethod
    def follow(self, outline: Outline, start: int, stop: int) -> None:
        """Take in the slots from `start` to `stop`, before any draft."""

    @abstractmethod
    def _frontier(self, outline: Outline, start: int, k: int, said: Said) -> ChainFrontier:
        """Feed the slots from `start` on; returns what says the first of up to k levels."""

    def _probabilities(self, features: Tensor) -> Tensor:
        return torch.softmax(self._llama.project(features).float(), dim=-1)


class LayeredForwards(Forwards):
    """EAGLE, MSD and FLASH: a decoder layer with a cache of its own."""

    def __init__(
        self,
        parts: Layered,
        llama: Llama,
        target: TorchTarget,
        sampling: Sampling,
        tree: Tree | None,
    ) -> None:
        """Start with an empty cache."""
        super().__init__(llama, target, sampling, tree)
        self._parts = parts
        self._cache = parts.decoder.new_cache(rows=1)

    @torch.inference_mode()
    def follow(self, outline: Outline, start: int, stop: int) -> None:
        """Feed slots to the layer."""
        self._advance(outline, start, stop)

    def _frontier(self, outline: Outline, start: int, k: int, said: Said) -> ChainFrontier:
        last = self._advance(outline, start, outline.slots)
        parts = self._parts
        if parts.expansion:
            return Block(parts.expansion(last, k), said)
        columns, embed = outline.rows(outline.slots), self._llama.embed
        return Recurrent(parts.decoder, self._cache, columns, last, parts.fuse, embed, said)

    def _advance(self, outline: Outline, start: int, stop: int) -> Tensor:
        """Feed slots; returns the layer's last output [1, H]."""
        x = torch.cat([self._rows(run) for run in outline.runs(start, stop)])
        at, last = outline.rows(start), x
        for low, high in chunks(0, len(x)):
            last = self._parts.decoder.append(x[low:high], self._cache, at + low)
        return last[-1:]

    def _rows(self, run: Run) -> Tensor:
        """What a run of slots is fed as, [r, H]."""
        target, after = self._target, (run.start + 1, run.stop + 1)
        if run.image is None:
            return self._parts.fuse(target.inputs(*after), target.states(run.start, run.stop))
        if self._parts.compressor:
            return self._parts.compressor(target.states(*run.image))
        return target.states(*after) if self._parts.expansion else target.inputs(*after)


class SlottedForwards(Forwards):
    """Medusa and Hydra: the last hidden state alone, and perhaps the images' embeddings."""

    def __init__(
        self,
        parts: Slotted,
        llama: Llama,
        target: TorchTarget,
        sampling: Sampling,
        tree: Tree | None,
    ) -> None:
        """Start without having looked at any image."""
        super().__init__(llama, target, sampling, tree)
        self._parts = parts

    def follow(self, outline: Outline, start: int, stop: int) -> None:
        """Do nothing: what has no cache is not behind."""

    def _frontier(self, outline: Outline, _: int, k: int, said: Said) -> ChainFrontier:
        last = outline.columns - 1
        state = self._seeing(self._target.states(last - 1, last), outline)
        if self._parts.expansion:
            return Block(self._parts.expansion(state, k), said)
        successors, token = self._parts.successors, self._target.inputs(last, last + 1)
        return Successive(successors, state, token, self._llama.embed, said)

    def _seeing(self, state: Tensor, outline: Outline) -> Tensor:
        """The state [1, H] with what the head reads off the images added."""
        if not self._parts.sight or not outline.images:
            return state
        seen = torch.cat([self._target.inputs(*image) for image in outline.images])
        return self._parts.sight(state, seen)
