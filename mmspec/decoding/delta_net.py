"""The part of a Gated DeltaNet layer between its projections, for every backend.

Shape letters: n rows, C channels of the convolution, W columns that it reads; G heads of keys, g
heads of values per head of keys, K width of keys, V of values.
"""

from functools import partial
from typing import Any, Generic, NamedTuple

from mmspec.decoding.delta_rule import CHUNK, Changes, advance, in_chunks
from mmspec.decoding.delta_states import Advance, DeltaMemory, DeltaStates, ForwardRows, Snapshot
from mmspec.decoding.framework import Framework
from mmspec.families.decoder import DeltaNetConfig
from mmspec.ground.arrays import A

EPSILON = 1e-6
"""Number that is added to the squared length of queries and keys."""


class DeltaNetWeights(NamedTuple, Generic[A]):
    """The tensors of a layer that are no projections."""

    convolution: A
    """[C, 1, W]"""
    decay: A
    """[G g] the logarithm of each head's speed of decay."""
    bias: A
    """[G g] what is added to the inputs of the decay."""
    norm: A
    """[V]"""


TENSORS = ("conv1d.weight", "A_log", "dt_bias", "norm.weight")
"""Names of the tensors of `DeltaNetWeights`."""


def new_states(framework: Framework[A], config: DeltaNetConfig, dtype: Any) -> DeltaStates[A]:
    """The states of an empty sequence; dtype: that of activations."""
    xp, heads = framework.xp, config.key_heads
    shape = heads, config.value_heads // heads, config.key_dim, config.value_dim
    state = framework.zeros(shape, dtype=xp.float32)
    window = framework.zeros((config.window - 1, config.channels), dtype=dtype)
    framework.settle(state, window)  # another thread may feed the sequence
    return DeltaStates(config.layers, Snapshot(0, state, window))


class DeltaNet(Generic[A]):
    """Convolution, gates, recurrence and gated norm."""

    def __init__(
        self,
        framework: Framework[A],
        config: DeltaNetConfig,
        weights: DeltaNetWeights[A],
        epsilon: float,
    ) -> None:
        """epsilon: that of the norm."""
        self._framework, self._config, self._epsilon = framework, config, epsilon
        xp = framework.xp
        floats = (xp.astype(tensor, xp.float32) for tensor in weights)
        self._weights = DeltaNetWeights[Any](*floats)
        self._order = framework.count(CHUNK)
        self._advance: Advance[A] = framework.compile(partial(advance, xp))
        framework.settle(self._order, *self._weights)  # another thread may decode

    def __call__(self, projections: Any, memory: DeltaMemory[A]) -> Any:
        """The outputs [n, G g V] of rows, before the last projection, in the type of the input.

        projections: [n, C + G g (V + 2)] what the convolution reads, the norm's gates, then the
        rates and decays of all heads.
        """
        xp, sizes = self._framework.xp, self._config
        heads, values = sizes.value_heads, sizes.value_heads * sizes.value_dim
        count = len(projections)
        inputs = xp.concat([memory.last.window, projections[:, : sizes.channels]], axis=0)
        queries, keys, v = self._heads(inputs, count)
        gates = projections[:, sizes.channels : sizes.channels + values]
        numbers = xp.astype(projections[:, sizes.channels + values :], xp.float32)
        shape = count, sizes.key_heads, -1, 1, 1
        rates = xp.reshape(1 / (1 + xp.exp(-numbers[:, :heads])), shape)
        x = numbers[:, heads:] + self._weights.bias
        decays = -xp.exp(self._weights.decay) * xp.logaddexp(x, xp.zeros_like(x))
        changes = Changes(keys, v, xp.reshape(decays, shape), rates)
        outputs = self._recurrence(memory, queries, inputs, changes)
        outputs = self._norm(xp.reshape(outputs, (count, heads, -1)))
        gates = self._framework.silu(xp.astype(gates, xp.float32))
        return xp.astype(xp.reshape(outputs, (count, -1)) * gates, projections.dtype)

    def _heads(self, inputs: Any, count: int) -> tuple[Any, Any, Any]:
        """Queries and keys [n, G, 1, 1, K] of unit length, and values [n, G, g, 1, V]."""
        xp, sizes, weight = self._framework.xp, self._config, self._weights.convolution
        floats = xp.astype(inputs, xp.float32)
        total = floats[:count] * weight[:, 0, 0]
        for place in range(1, sizes.window):
            total = total + floats[place : place + count] * weight[:, 0, place]
        silu, width = self._framework.silu, sizes.key_heads * sizes.key_dim
        shape = count, 2 * sizes.key_heads, 1, 1, sizes.key_dim
        vectors = xp.reshape(silu(total[:, : 2 * width]), shape)
        lengths = xp.sqrt(xp.sum(vectors * vectors, axis=-1, keepdims=True) + EPSILON)
        # Keys and values are arrays of their own: rows that are kept hold nothing else in memory.
        queries, keys = (
            vectors[:, part] / lengths[:, part]
            for part in (slice(sizes.key_heads), slice(sizes.key_heads, None))
        )
        values = silu(total[:, 2 * width :])
        values = xp.reshape(values, (count, sizes.key_heads, -1, 1, sizes.value_dim))
        return queries * sizes.key_dim**-0.5, keys, values

    def _recurrence(
        self, memory: DeltaMemory[A], queries: Any, inputs: Any, changes: Changes
    ) -> Any:
        """The outputs [n, G, g, 1, V] of rows; `memory` is after them."""
        xp, (column, state, window) = self._framework.xp, memory.last
        count = len(queries)
        if memory.steps == 0:
            outputs, after = in_chunks(xp, self._order, state, queries, changes)
            window = inputs[count:] + 0  # a copy, which does not hold the prompt's rows in memory
            memory.restart(Snapshot(column + count, after, window))
            return outputs
        steps = count if memory.steps is None else memory.steps
        by_row = []
        for row in range(steps):
            state = self._advance(state, *changes.at(row))
            by_row.append(xp.matmul(queries[row], state))
        by_row += [xp.zeros_like(by_row[0])] * (count - steps)
        # Whole arrays: of their parts, the padding would leave some that nothing evaluates (MLX).
        rows = ForwardRows[A](inputs, changes, steps, self._advance)
        window = inputs[steps : steps + len(window)]
        memory.follow(rows, Snapshot(column + steps, state, window))
        return xp.stack(by_row)

    def _norm(self, x: Any) -> Any:
        xp = self._framework.xp
        variance = xp.mean(x * x, axis=-1, keepdims=True)
        return x / xp.sqrt(variance + self._epsilon) * self._weights.norm
