"""Feeds the target a fixed number of rows as a fixed sequence of kernels.

A plain token, a chain and a tree differ only in numbers on the device, so one graph serves all that
have the same number of rows after padding.

Shape letters: m rows fed, R rows after padding, C visible columns, H width.
"""

from typing import NamedTuple

import array_api_compat.torch as xp
import torch
from torch import Tensor

from mmspec.decoding.block_attention import BLOCK, tree_places, whole_blocks
from mmspec.decoding.draft import Ancestry
from mmspec.decoding.tree import MOST_NODES
from mmspec_torch.graphs.cache import StaticSpan
from mmspec_torch.graphs.capture import Capture, Outputs
from mmspec_torch.graphs.static_form import Frame, send
from mmspec_torch.network.decoder import LanguageModel, Step, hidden

ROWS = 1 << MOST_NODES.bit_length()
"""The most rows that the static form feeds at once: a power of two, as all numbers of rows."""


class Tree(NamedTuple):
    """What the rows of a tree see."""

    root: int
    """The column of the root."""
    visible: Tensor
    """[m, any] for each row: True for the nodes, counted from the root, that it sees."""


class StaticTarget:
    """The static form of a target: a cache, and captured forwards over a token and a draft."""

    def __init__(self, language: LanguageModel, capture: Capture) -> None:
        self._frame, self._language = Frame(language, 1, capture), language
        self._starts = self._frame.integers(3)
        self._x = torch.zeros(
            ROWS, language.config.hidden_size, device=language.device, dtype=language.dtype
        )
        self._chain = torch.ones(ROWS, ROWS, device=language.device, dtype=torch.bool).tril_()
        self._visible = self._chain.clone()
        self.cache = self._frame.cache

    def feed(
        self,
        x: Tensor,
        first: int,
        shift: int,
        tree: Tree | None = None,
        multiple: int | None = None,
        captured: tuple[int, ...] = (),
    ) -> Tensor:
        """Feed x [m, H] to the columns from `first` on; returns the last layer's output [m, H].

        shift: added to columns for rotary positions.  tree: what the rows see; None for a chain.
        multiple: that of exact rows; None for attention with a fused kernel.  captured: layers
        whose outputs are returned too.
        """
        root, visible = tree or (first, self._chain[: len(x), : len(x)])
        rows = 1 << (max(len(x), multiple or 1) - 1).bit_length()
        nodes = rows if visible.shape[1] <= rows else ROWS
        width = self._frame.reach(first + nodes + 2 * BLOCK)
        turns = max(width, self._frame.turn(root + nodes + shift))  # a clip's time outruns columns
        send((first, root, shift), self._starts)
        self._x[: len(x)].copy_(x)
        self._visible[: len(x)].zero_()  # padding keeps what it saw, at least the root
        self._visible[: len(x), : visible.shape[1]].copy_(visible)
        key = rows, nodes, width, turns, multiple, captured
        [outputs] = self._frame.run(key, lambda: self._forward(*key))
        return outputs[: len(x)]

    def _forward(
        self,
        rows: int,
        nodes: int,
        width: int,
        turns: int,
        multiple: int | None,
        captured: tuple[int, ...],
    ) -> Outputs:
        frame, (first, root, shift) = self._frame, torch.split(self._starts, 1)
        visible = self._visible[:rows, :nodes]
        span = StaticSpan(frame.cache, first + frame.count(rows), width)
        ancestry = Ancestry(visible, visible.sum(1) - 1)
        angles = frame.angles(turns, root + shift + ancestry.depths)
        if multiple is None:
            step = Step(angles, span, self._mask(visible, root, width), captured=captured)
        else:
            blocks = whole_blocks(BLOCK - 1 + nodes) // BLOCK
            places = tree_places(xp, frame.count, ancestry, root, width, multiple, blocks)
            step = Step(angles, span, places=places, captured=captured)
        return (self._language.forward(self._x[:rows].clone(), step),)

    def _mask(self, visible: Tensor, root: Tensor, width: int) -> Tensor:
        """The mask [R, C] of rows that see all columns before `root`, and nodes after it."""
        rows, nodes = visible.shape
        shade = self._x.new_zeros(rows, nodes + 2)
        shade[:, 1:-1].masked_fill_(~visible, hidden(shade.dtype))
        shade[:, -1:].fill_(hidden(shade.dtype))
        place = (self._frame.count(width) - root).clamp(-1, nodes) + 1
        return shade.index_select(1, place)
