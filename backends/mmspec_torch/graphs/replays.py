"""Rounds that are captured once and replayed over caches at fixed addresses.

Positions are numbers on the device, so that the kernels depend only on the shape of a round. The
same code runs eagerly on any device.

Shape letters: R branches, m rows of a target fed, M rows after padding, n columns fed, C visible
columns, k drafted tokens, H width.
"""

from collections.abc import Callable, Hashable
from functools import partial
from itertools import chain
from typing import Any
from warnings import warn

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.block_attention import BLOCK, tree_places, whole_blocks
from mmspec.decoding.branch_sequence import BranchState
from mmspec.decoding.contents import Row
from mmspec.decoding.draft import Ancestry
from mmspec.decoding.feeding import Columns
from mmspec.decoding.noise import Noise
from mmspec.decoding.tree import MOST_NODES
from mmspec_torch.device.cuda_graphs import Capture, Compute, Outputs
from mmspec_torch.device.device_io import send
from mmspec_torch.network.attention import Padding, Step, hiding, hiding_number
from mmspec_torch.network.cache import Cache
from mmspec_torch.network.decoder import LanguageModel

ROWS = 1 << MOST_NODES.bit_length()
"""The most rows that are fed at once: a power of two, as all numbers of rows."""
PROMPT_ROWS = 128
"""The most rows of a prompt that are fed as a graph: longer ones keep a GPU busy anyway."""

Choose = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, list[Tensor]]]
"""Function from outputs [R, H], weights [R] and keys [1, 2] to the next token [1], and a list of
the branches' probabilities [R, V], empty with one branch. It depends only on its arguments and on
constants: all else would be replayed as it was at the capture."""


class StaticCache(Cache):
    """A cache at one address until it grows, with its captures and what they read besides it."""

    step = 1024
    """Number of columns by which the cache grows; forwards see a multiple of this number."""
    numbers: Tensor
    """[C] the numbers of all columns."""
    shade: Tensor
    """[R, 1, 1, C] what is added to scores to hide padding."""

    def __init__(self, language: LanguageModel, rows: int, capture: Capture) -> None:
        text, self._rotary, self._capture = language.config, language.rotary, capture
        sizes = text.num_hidden_layers, rows, text.num_key_value_heads, text.head_dim
        super().__init__(*sizes, language.device, language.dtype)
        self._replays = dict[Hashable, Compute | None]()
        self.numbers = torch.arange(0)

    def reserve(self, end: int) -> None:
        """Allocate at least `end` columns; if they move, forget the captures, which read them."""
        if end <= len(self.numbers):
            return
        super().reserve(end)
        self._replays.clear()
        self.shade = self._buffer.new_zeros(self.rows, 1, 1, self.columns)
        self._cos, self._sin = self._rotary.run(0, self.columns)
        self.numbers = torch.arange(self.columns, device=self._buffer.device)  # last: all is there

    def reach(self, end: int) -> int:
        """Allocate columns up to `end`; returns how many of them a forward sees."""
        self.reserve(end)
        return -(-end // self.step) * self.step

    def run(self, key: Hashable, compute: Compute) -> Outputs:
        """Replay `compute`, which is captured first; those with the same `key` are the same."""
        if key not in self._replays:
            try:
                self._replays[key] = self._capture(compute)
            except torch.OutOfMemoryError:
                return compute()  # which needs less; a later round may capture
            except RuntimeError as error:
                reason = str(error).partition("\n")[0]
                warn(f"no graph, rounds run kernel by kernel and slower: {reason}", stacklevel=2)
                self._replays[key] = None  # `compute` may refer to its sequence, which would stay
        return (self._replays[key] or compute)()

    def forward(self, positions: Tensor, columns: Tensor, width: int, **parts: Any) -> Step:
        """A `Step` at positions [...] that writes columns [n] and sees the first `width`.

        parts: other fields of the `Step`.
        """
        angles = F.embedding(positions, self._cos), F.embedding(positions, self._sin)
        writes = (partial(buffer.index_copy_, 2, columns) for buffer in self._buffer.unbind())
        return Step(angles, self._layers(writes, width), recurs=True, **parts)


class TargetReplays:
    """Feeds padded rows: one capture serves a token, chains and trees of as many rows."""

    def __init__(self, language: LanguageModel, cache: StaticCache, is_exact: bool) -> None:
        self._language, self.cache = language, cache
        device, width = language.device, language.config.hidden_size
        self._prompt_rows = 0 if is_exact else PROMPT_ROWS
        self._starts = torch.zeros(3, dtype=torch.int64, device=device)
        self._x = torch.zeros(ROWS, width, device=device, dtype=language.dtype)
        self._chain = torch.ones(ROWS, ROWS, device=device, dtype=torch.bool).tril_()
        self._visible = self._chain.clone()

    def feed(
        self, x: Tensor, columns: Columns, row: Row[Tensor], captured_layers: tuple[int, ...]
    ) -> Tensor | None:
        """As `TargetSequence._forward`, or None if no capture serves."""
        first, count, multiple = columns.first, len(x), columns.multiple
        root, visible = first, self._chain[:count, :count]
        if columns.ancestry:
            root, visible = columns.root, columns.ancestry.visible
        elif not multiple:
            is_wide = row.image_width(first, first + count) > x.shape[1]
            if count > self._prompt_rows or is_wide or not row.counts_up(first, first + count):
                return None
        rows, shift = 1 << (max(count, multiple or 1) - 1).bit_length(), row.shift(first)
        nodes = rows if visible.shape[1] <= rows else ROWS
        # A clip's time can outrun the columns.
        width = self.cache.reach(max(first + nodes + 2 * BLOCK, root + nodes + shift))
        send((first, root, shift), self._starts)
        self._x[:count].copy_(x)
        self._visible[:count].zero_()  # padding keeps what it saw, at least the root
        self._visible[:count, : visible.shape[1]].copy_(visible)
        key = rows, nodes, width, multiple, captured_layers
        [outputs] = self.cache.run(key, lambda: self._forward(*key))
        return outputs[:count]

    def _forward(
        self, rows: int, nodes: int, width: int, multiple: int | None, layers: tuple[int, ...]
    ) -> Outputs:
        numbers, (first, root, shift) = self.cache.numbers, torch.split(self._starts, 1)
        visible = self._visible[:rows, :nodes]
        ancestry, mask, places = Ancestry(visible, visible.sum(1) - 1), None, None
        if multiple is None:
            mask = self._mask(visible, root, width)
        else:
            blocks = whole_blocks(BLOCK - 1 + nodes) // BLOCK
            count = partial(numbers.narrow, 0, 0)
            places = tree_places(xp, count, ancestry, root, width, multiple, blocks)
        at = root + shift + ancestry.depths, first + numbers[:rows], width
        step = self.cache.forward(*at, mask=mask, places=places, captured_layers=layers)
        return (self._language.forward(self._x[:rows].clone(), step),)

    def _mask(self, visible: Tensor, root: Tensor, width: int) -> Tensor:
        """The mask [M, C] of rows that see all columns before `root`, and nodes after it."""
        rows, nodes = visible.shape
        shade = self._x.new_zeros(rows, nodes + 2)
        shade[:, 1:-1].masked_fill_(~visible, hiding_number(shade.dtype))
        shade[:, -1:].fill_(hiding_number(shade.dtype))
        place = (self.cache.numbers[:width] - root).clamp(-1, nodes) + 1
        return shade.index_select(1, place)


class DraftReplays:
    """Drafts a chain of text, with all its tokens and branches, as one capture."""

    def __init__(self, language: LanguageModel, cache: StaticCache, *_: Hashable) -> None:
        """_: constants on which the choice of tokens depends."""
        self._language, self.cache = language, cache
        self._numbers = torch.zeros(2 * ROWS, dtype=torch.int64, device=language.device)
        self._blend = torch.zeros(cache.rows, device=language.device)

    def chain(
        self,
        row: Row[Tensor],
        state: BranchState[Tensor, Padding],
        k: int,
        blend: Tensor,
        noise: Noise,
        choose: Choose,
    ) -> tuple[Tensor, Tensor] | None:
        """Draft k tokens at once; returns ids [k] and probabilities [k, R, V], [0] for one branch.

        None after an image.  row: one that holds the tokens that are not fed yet.  blend: [R] the
        weights of the branches.
        """
        start, columns = state.start, state.columns
        if row.image_width(start, columns):
            return None
        tokens = row.ids(start, columns, self._language.config.vocab_size)
        width = self.cache.reach(max(columns, *state.positions) + k)
        shade = self.cache.shade.zero_()
        if state.padding:
            mask = state.padding.mask(columns + k)[..., : shade.shape[-1]]
            shade[..., : mask.shape[-1]].copy_(mask)
        self._blend.copy_(blend)
        while tokens:
            # After plain rounds in pieces of few lengths: each length has a capture of its own.
            count = len(tokens)
            piece = count if count <= 2 else min(ROWS, 1 << (count - 1).bit_length() - 1)
            depth = k if piece == count else 0
            ends = (position - count + piece for position in state.positions)
            keys = chain.from_iterable(noise.keys(depth))
            send([start, *tokens[:piece], *ends, *keys], self._numbers)
            key = depth, piece, width
            ids, q = self.cache.run(key, partial(self._forward, *key, choose))
            start, tokens = start + piece, tokens[piece:]
        return ids, q

    def _forward(self, k: int, count: int, width: int, choose: Choose) -> Outputs:
        """Feed `count` tokens to every row, then draft k."""
        language, rows, numbers = self._language, self.cache.rows, self.cache.numbers
        sizes = [1, count, rows, 2 * k]
        start, tokens, following, keys = torch.split(self._numbers[: sum(sizes)], sizes)
        keys = keys.view(k, 2).to(torch.int32)
        x, columns = language.embed(tokens).repeat(rows, 1), start + numbers[:count]
        positions = following.unsqueeze(1) - count + numbers[:count]
        ids: list[Tensor] = [tokens[:0]]
        record: list[Tensor] = []
        for node in range(max(k, 1)):
            if node:
                x = language.embed(ids[-1].expand(rows))
                columns, positions = columns[-1:] + 1, positions[:, -1:] + 1
            mask = hiding(numbers[:width] > columns.unsqueeze(1), language.dtype)
            if rows > 1:
                mask = mask + self.cache.shade[..., :width]
            step = self.cache.forward(positions.unsqueeze(1), columns, width, mask=mask)
            x = language.forward(x, step)
            if node < k:
                last = x.view(rows, len(columns), -1)[:, -1]
                token, q = choose(last, self._blend, keys[node : node + 1])
                ids.append(token)
                record += q
        return torch.cat(ids), torch.stack(record) if record else tokens[:0]
