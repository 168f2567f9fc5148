"""A loaded checkpoint: vision tower, projector and Llama, or a Llama alone."""

import hashlib
import math
from dataclasses import replace
from functools import cached_property

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mmspec.adaptive import Adaptation
from mmspec.config import ModelConfig
from mmspec.errors import UsageError
from mmspec.sampling import Sampling
from mmspec.seam import Features, Segment
from mmspec.tree import Tree
from mmspec_mlx import host
from mmspec_mlx.clip import Affine, Tower, affine
from mmspec_mlx.drafter import MlxDrafter
from mmspec_mlx.llama import Llama
from mmspec_mlx.prompt import Placed, place
from mmspec_mlx.target import MlxTarget
from mmspec_mlx.weights import Weights


class MlxFeatures:
    """Features [N, D] of one image; see `mmspec.seam.Features`."""

    def __init__(self, rows: mx.array) -> None:
        """Take rows [N, D] as they are, the class token left out where the model leaves it."""
        self.rows = rows
        self._pooled: dict[int, MlxFeatures] = {}

    @property
    def positions(self) -> int:
        """N, a square."""
        return self.rows.shape[0]

    def pooled(self, positions: int) -> "MlxFeatures":
        """Average-pool the square grid to `positions`; raises UsageError where it cannot."""
        if positions == self.positions:
            return self
        if positions not in self._pooled:
            self._pooled[positions] = MlxFeatures(_pool(self.rows, positions))
        return self._pooled[positions]

    def numpy(self) -> NDArray[np.float32]:
        """The features [N, D] on the host.  Blocks."""
        return host.float32(self.rows)


def _pool(rows: mx.array, positions: int) -> mx.array:
    grid, side = math.isqrt(rows.shape[0]), math.isqrt(positions)
    if grid**2 != rows.shape[0] or side**2 != positions or side < 1 or grid % side:
        raise UsageError(
            f"{rows.shape[0]} visual positions cannot be pooled to {positions}: "
            f"give a square whose side divides {grid}"
        )
    block = grid // side
    return rows.reshape(side, block, side, block, -1).mean(axis=(1, 3)).reshape(positions, -1)


class MlxModel:
    """See `mmspec.seam.Model`."""

    quantize = "none"

    def __init__(self, weights: Weights, config: ModelConfig, device: str) -> None:
        """Build the modules from a plan's tensors; `device` is only reported."""
        self.config = config
        self.device = device
        self._eyes = _eyes(weights, config)
        self.llama = Llama(weights, config.text)

    @property
    def dtype(self) -> str:
        """The type activations are computed in."""
        return str(self.llama.dtype).removeprefix("mlx.core.")

    @cached_property
    def tower(self) -> str:
        """Digest of tensors, dtype, feature layer and class-token rule; '' without a tower."""
        if self._eyes is None or self.config.vision is None:
            return ""
        # Layers after the feature layer are not built and decide nothing.
        built = replace(self.config.vision, num_hidden_layers=self.config.vision_layers)
        rule = (built, self.dtype, self.config.drops_class_token)
        digest = hashlib.sha256(repr(rule).encode())
        for array in self._eyes[0].arrays:
            digest.update(host.raw(array))
        return digest.hexdigest()

    def encode(self, pixels: NDArray[np.float32]) -> MlxFeatures:
        """Run the vision tower on preprocessed pixels [3, height, width]."""
        states = self._require_eyes()[0](mx.array(pixels).astype(self.llama.dtype))
        rows = states[1:] if self.config.drops_class_token else states
        mx.eval(rows)
        return MlxFeatures(rows)

    def trace(self) -> None:
        """List all modules' operations and evaluate none; ValueError where shapes do not fit."""
        rows = self.llama.embedding.rows(host.ids([0]))
        if self._eyes is not None and self.config.vision is not None:
            size, channels = self.config.vision.image_size, self.config.vision.num_channels
            rows = self._projected(self._eyes[0](mx.zeros((channels, size, size))))
        cache, x = self.llama.new_cache(rows=1), mx.expand_dims(rows, 0)
        self.llama.logits(self.llama.feed(x, cache, 0, self.llama.rotary.at([0], x.shape[1]), None))

    def project(self, features: Features) -> NDArray[np.float32]:
        """The projector's output [N, H] on the host.  Blocks."""
        return host.float32(self._project(features))

    def open_target(self, sampling: Sampling, watch: bool = False) -> MlxTarget:
        """Start an empty sequence; see `mmspec.seam.Model.open_target`."""
        return MlxTarget(self.llama, self._place, sampling, watch)

    def open_drafter(
        self,
        branches: int,
        vocabulary: int,
        sampling: Sampling,
        adaptation: Adaptation | None = None,
        tree: Tree | None = None,
    ) -> MlxDrafter:
        """Start an empty sequence of `branches` rows for a target of `vocabulary` tokens."""
        return MlxDrafter(self.llama, self._place, branches, vocabulary, sampling, adaptation, tree)

    def _place(self, segment: Segment, offset: int) -> Placed:
        return place(segment, offset, self.config.image_token_id, self._project)

    def _project(self, features: Features) -> mx.array:
        if not isinstance(features, MlxFeatures):
            raise UsageError("these image features are not ones this model can read")
        return self._projected(features.rows)

    def _projected(self, rows: mx.array) -> mx.array:
        """Map features [N, D] to the language model's width [N, H]."""
        first, second = self._require_eyes()[1]
        return second(_gelu(first(rows)))

    def _require_eyes(self) -> "Eyes":
        if self._eyes is None:
            raise UsageError("this model is text-only: it cannot look at an image")
        return self._eyes


Eyes = tuple[Tower, tuple[Affine, Affine]]


def _eyes(weights: Weights, config: ModelConfig) -> Eyes | None:
    if config.vision is None:
        return None
    tower = Tower(weights, config.vision, config.vision_layers)
    first, second = (affine(weights, f"multi_modal_projector.linear_{part}") for part in (1, 2))
    return tower, (first, second)


def _gelu(x: mx.array) -> mx.array:
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2
