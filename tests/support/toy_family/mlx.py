"""The toy family's tower and projector on MLX."""

import mlx.core as mx

from mmspec_mlx.device.weights import Weights
from mmspec_mlx.network.vision import MlxFeatures
from support.toy_family.family import ColourVision


class Colours:
    """Implements `mmspec_mlx.network.vision.Vision`."""

    def __init__(self, weights: Weights, config: ColourVision) -> None:
        self.settings, self._config = repr(config), config
        self._colours = weights.linear("multi_modal_projector.colours")

    def encode(self, pixels: mx.array) -> MlxFeatures:
        grid = self._config.grid(*pixels.shape[1:])
        quarters = pixels.reshape(3, grid.height, 4, grid.width, 4).mean(axis=(2, 4))
        return MlxFeatures(quarters.reshape(3, -1).T, grid)

    def place(self, rows: mx.array) -> mx.array:
        return self._colours(rows)

    @property
    def tensors(self) -> list[mx.array]:
        return self._colours.arrays
