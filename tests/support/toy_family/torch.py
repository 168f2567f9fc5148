"""The toy family's tower and projector on PyTorch."""

from torch import Tensor

from mmspec_torch.device.weights import Weights
from mmspec_torch.network.affine import linear
from mmspec_torch.network.vision import TorchFeatures
from support.toy_family.family import ColourVision


class Colours:
    """Implements `mmspec_torch.network.vision.Vision`."""

    def __init__(self, weights: Weights, config: ColourVision) -> None:
        self.settings, self._config = repr(config), config
        self._colours = linear(weights, "multi_modal_projector.colours")

    def encode(self, pixels: Tensor) -> TorchFeatures:
        grid = self._config.grid(*pixels.shape[1:])
        quarters = pixels.reshape(3, grid.height, 4, grid.width, 4).mean(dim=(2, 4))
        return TorchFeatures(quarters.flatten(1).T, grid)

    def place(self, rows: Tensor) -> Tensor:
        return self._colours(rows)

    @property
    def tensors(self) -> list[Tensor]:
        return list(self._colours.tensors)
