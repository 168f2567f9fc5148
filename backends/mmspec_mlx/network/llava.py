"""LLaVA's tower and projector: CLIP's features, projected into Llama's embeddings.

Shape letters: N visual positions of one image, D width of the tower, H width of the decoder.
"""

from dataclasses import replace

import mlx.core as mx

from mmspec.families.llava import LlavaVision
from mmspec_mlx.device.weights import Weights
from mmspec_mlx.network.affine import gelu
from mmspec_mlx.network.clip import Tower
from mmspec_mlx.network.vision import MlxFeatures


class Llava:
    """Implements `mmspec_mlx.network.vision.Vision`."""

    def __init__(self, weights: Weights, config: LlavaVision) -> None:
        # Layers after the feature layer are not built, and don't change the features.
        self.settings = repr(replace(config, num_hidden_layers=config.layers, feature_layer=0))
        self._config, self._tower = config, Tower(weights, config)
        self._first = weights.linear("multi_modal_projector.linear_1")
        self._second = weights.linear("multi_modal_projector.linear_2")

    def encode(self, pixels: mx.array) -> MlxFeatures:
        """Run the tower on pixel values [3, height, width]."""
        return MlxFeatures(self._tower(pixels), self._config.grid(*pixels.shape[1:]))

    def place(self, rows: mx.array) -> mx.array:
        """Project features [N, D] to embeddings [N, H]: an exact GELU between two layers."""
        return self._second(gelu(self._first(rows)))

    @property
    def tensors(self) -> list[mx.array]:
        """The tower's tensors, always in the same order."""
        return self._tower.arrays
