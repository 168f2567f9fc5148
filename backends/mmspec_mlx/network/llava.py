"""A loaded checkpoint: vision tower, projector and Llama, or a Llama alone."""

import hashlib
import math
from dataclasses import replace
from functools import cached_property

import mlx.core as mx

from mmspec.checkpoints.config import ModelConfig
from mmspec.decoding.grid_features import GridFeatures
from mmspec.errors import UsageError
from mmspec.seam import Features, Float32
from mmspec_mlx import device_io
from mmspec_mlx.network.clip import Tower
from mmspec_mlx.network.llama import Llama
from mmspec_mlx.weights import Weights


class MlxFeatures(GridFeatures):
    """Vision features [N, D] of one image on the device."""

    rows: mx.array

    def numpy(self) -> Float32:
        """Copy the features [N, D] to the host.  Blocks."""
        return device_io.to_host(self.rows)


class Projector:
    """Two linear layers with an exact GELU between them."""

    def __init__(self, weights: Weights) -> None:
        self._first = weights.linear("multi_modal_projector.linear_1")
        self._second = weights.linear("multi_modal_projector.linear_2")

    def __call__(self, features: mx.array) -> mx.array:
        """Project features [N, D] to embeddings [N, H]."""
        return self._second(_gelu(self._first(features)))


class Llava:
    """A loaded checkpoint's vision tower, projector and Llama."""

    quantize = "none"

    def __init__(self, weights: Weights, config: ModelConfig, device: str) -> None:
        self.config = config
        self.device = device
        self.llama = Llama(weights, config.text)
        self._tower: Tower | None = None
        self._projector: Projector | None = None
        if config.vision is not None:
            self._tower = Tower(weights, config.vision, config.vision_layers)
            self._projector = Projector(weights)

    @property
    def dtype(self) -> str:
        """The dtype of activations."""
        return str(self.llama.dtype).removeprefix("mlx.core.")

    @cached_property
    def tower(self) -> str:
        """Digest of the tower's tensors, dtype and settings; '' without a tower."""
        if self._tower is None or self.config.vision is None:
            return ""
        # Layers after the feature layer are not built, and don't change the features.
        built = replace(self.config.vision, num_hidden_layers=self.config.vision_layers)
        rule = (built, self.dtype, self.config.drops_class_token)
        digest = hashlib.sha256(repr(rule).encode())
        for array in self._tower.arrays:
            digest.update(device_io.raw(array))
        return digest.hexdigest()

    def encode(self, pixels: Float32) -> MlxFeatures:
        """Run the vision tower on preprocessed pixels [3, height, width]."""
        if self._tower is None:
            raise UsageError("this model is text-only: it cannot look at an image")
        states = self._tower(mx.array(pixels).astype(self.llama.dtype))
        rows = states[1:] if self.config.drops_class_token else states
        mx.eval(rows)
        return MlxFeatures(rows)

    def trace(self) -> None:
        """Enqueue every module without evaluating it.  Raises ValueError for mismatched shapes."""
        rows = self.llama.embedding.rows(device_io.integers([0]))
        if self._tower and self._projector:
            size, channels = self._tower.config.image_size, self._tower.config.num_channels
            rows = self._projector(self._tower(mx.zeros((channels, size, size))))
        cache, x = self.llama.new_cache(rows=1), mx.expand_dims(rows, 0)
        self.llama.logits(self.llama.feed(x, cache, 0, self.llama.rotary.at([0], x.shape[1]), None))

    def project(self, features: Features) -> Float32:
        """Return the image embeddings [N, H] on the host.  Blocks."""
        return device_io.to_host(self.projected(features))

    def projected(self, features: Features) -> mx.array:
        """Return the image embeddings [N, H].  Raises UsageError for another backend's features."""
        if self._projector is None or not isinstance(features, MlxFeatures):
            raise UsageError("these image features are not ones this model can read")
        return self._projector(features.rows)


def _gelu(x: mx.array) -> mx.array:
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2
