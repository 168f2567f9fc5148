"""ViSpec's head in numpy: the published layout's forward, every slot anew, no cache.

Shape letters: n columns, N columns of an image, C queries, H width, D head size.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class ViSpec:
    """One head over one prompt whose last token is fed to nothing yet."""

    def __init__(
        self,
        config: Mapping[str, Any],
        tensors: Mapping[str, Any],
        embeddings: Any,
        states: Any,
        image: Sequence[int],
    ) -> None:
        """embeddings: [n, H].  states: [n - 1, H].  image: [n] its number, -1 for text."""
        self._config = config
        self._tensors = {name: np.asarray(one, dtype=np.float64) for name, one in tensors.items()}
        self._embeddings, self._states = np.asarray(embeddings), np.asarray(states)
        self._rows: list[Array] = []
        self._places: list[int] = []
        self._view = np.zeros(self._embeddings.shape[1])
        self._read(image)

    def feature(self, drafted: Sequence[Any]) -> Array:
        """The layer's output [H] after drafted tokens, given by their embeddings."""
        rows, places, slots = self._rows, self._places, len(self._states)
        output = self._layer(rows, places)[-1]
        for depth, embedding in enumerate(drafted):
            rows = [*rows, self._pair(np.asarray(embedding), output)]
            places = [*places, slots + depth]
            output = self._layer(rows, places)[-1]
        return output

    def _read(self, image: Sequence[int]) -> None:
        """Slot after slot; an image's slots are those whose next column belongs to it."""
        slot = 0
        while slot < len(self._states):
            end = slot
            while end < len(self._states) and image[end + 1] == image[slot + 1] >= 0:
                end += 1
            if end == slot:
                self._rows.append(self._pair(self._embeddings[slot + 1], self._states[slot]))
                self._places.append(slot)
                slot += 1
                continue
            vectors = self._vectors(self._embeddings[slot + 1 : end + 1])
            self._rows += list(vectors[:-1])
            self._places += range(end - len(vectors) + 1, end)
            self._view, slot = vectors[-1], end

    def _vectors(self, embeddings: Array) -> Array:
        """[C, H]: each head of each query attends to the image [N, H]."""
        queries = self._tensors["imadpt.q"]
        count, heads, size = queries.shape
        keys, values = (
            self._linear(f"imadpt.{part}_proj", embeddings).reshape(-1, heads, size)
            for part in "kv"
        )
        seen = np.zeros((count, heads, size))
        for query in range(count):
            for head in range(heads):
                weights = softmax(keys[:, head] @ queries[query, head] / size**0.5)
                seen[query, head] = weights @ values[:, head]
        return self._linear("imadpt.o_proj", seen.reshape(count, -1))

    def _pair(self, embedding: Array, state: Array) -> Array:
        state = self._linear("img_fc", np.concatenate([state, self._view]))
        return self._linear("fc", np.concatenate([embedding, state]))

    def _linear(self, path: str, x: Array) -> Array:
        return x @ self._tensors[f"{path}.weight"].T + self._tensors.get(f"{path}.bias", 0)

    def _layer(self, rows: Sequence[Array], places: Sequence[int]) -> Array:
        """A Llama layer without a norm before attention."""
        x, stem = np.stack(rows), "layers.0"
        heads = self._config["num_attention_heads"]
        groups = heads // self._config["num_key_value_heads"]
        size = x.shape[1] // heads
        parts = [self._linear(f"{stem}.self_attn.{part}_proj", x) for part in "qkv"]
        queries, keys, values = (part.reshape(len(x), -1, size) for part in parts)
        queries, keys = self._turned(queries, places), self._turned(keys, places)
        attended = np.zeros((len(x), heads, size))
        for row in range(len(x)):
            for head in range(heads):
                near = slice(0, row + 1), head // groups
                weights = softmax(keys[near] @ queries[row, head] / size**0.5)
                attended[row, head] = weights @ values[near]
        x = x + self._linear(f"{stem}.self_attn.o_proj", attended.reshape(len(x), -1))
        spread = np.sqrt((x**2).mean(-1, keepdims=True) + self._config["rms_norm_eps"])
        normed = x / spread * self._tensors[f"{stem}.post_attention_layernorm.weight"]
        gate = self._linear(f"{stem}.mlp.gate_proj", normed)
        inner = gate / (1 + np.exp(-gate)) * self._linear(f"{stem}.mlp.up_proj", normed)
        return x + self._linear(f"{stem}.mlp.down_proj", inner)

    def _turned(self, x: Array, places: Sequence[int]) -> Array:
        """x [n, heads, D]: features i and i + D / 2 turn by place * theta^(-2 i / D)."""
        half = x.shape[-1] // 2
        turns = self._config["rope_theta"] ** -(np.arange(half) / half)
        angles = (np.array(places)[:, None] * turns)[:, None]
        first, second = x[..., :half], x[..., half:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def softmax(x: Array) -> Array:
    """Shares of one, along the only axis."""
    shares = np.exp(x - x.max())
    return shares / shares.sum()
