"""Hidden states and embeddings of a target's columns, for heads.  n columns, H width."""

from collections.abc import Sequence

import mlx.core as mx

from mmspec_mlx.network.cache import STEP


class HiddenStateCache:
    """Hidden states after the last norm, and embeddings, by column."""

    def __init__(self, width: int, dtype: mx.Dtype) -> None:
        self._states = mx.zeros((0, width), dtype)
        self._embeddings = mx.zeros((0, width), dtype)

    def write(self, start: int, embeddings: mx.array, states: mx.array) -> None:
        """Store embeddings and states, both [n, H], of the columns from `start` on."""
        end = start + len(states)
        if end > len(self._states):
            self._states = _longer(self._states, end)
            self._embeddings = _longer(self._embeddings, end)
        self._states[start:end] = states
        self._embeddings[start:end] = embeddings

    def states(self, start: int, stop: int) -> mx.array:
        """Return the hidden states [n, H] of columns."""
        return self._states[start:stop]

    def embeddings(self, start: int, stop: int) -> mx.array:
        """Return the embeddings [n, H] of columns."""
        return self._embeddings[start:stop]

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move m columns to `start` onwards; they ascend, and none is before `start`."""
        chosen, end = mx.array(list(columns)), start + len(columns)
        self._states[start:end] = mx.take(self._states, chosen, axis=0)
        self._embeddings[start:end] = mx.take(self._embeddings, chosen, axis=0)

    def settle(self) -> None:
        """Wait until all writes are computed, which bounds memory use."""
        mx.eval(self._states, self._embeddings)


def _longer(rows: mx.array, end: int) -> mx.array:
    room = -(-end // STEP) * STEP - len(rows)
    return mx.concatenate([rows, mx.zeros((room, rows.shape[1]), rows.dtype)])
