"""LLaVA: CLIP's features, projected into Llama's embeddings; or Llama alone.

Shape letters: N visual positions of one image, D width of the tower, H width of the decoder.
"""

from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.checkpoints.config import ModelConfig
from mmspec.decoding.grid_features import GridFeatures
from mmspec.errors import UsageError
from mmspec.seam import Features, Float32
from mmspec_torch.device_io import to_host
from mmspec_torch.network.clip import Tower, linear
from mmspec_torch.network.llama import Llama
from mmspec_torch.weights import Weights


class TorchFeatures(GridFeatures):
    """Vision features [N, D] of one image on the device."""

    rows: Tensor

    def numpy(self) -> Float32:
        """Copy the features [N, D] to the host.  Blocks."""
        return to_host(self.rows)


class Projector:
    """Two linear layers with an exact GELU between them."""

    def __init__(self, weights: Weights) -> None:
        self._first = linear(weights, "multi_modal_projector.linear_1")
        self._second = linear(weights, "multi_modal_projector.linear_2")

    def __call__(self, features: Tensor) -> Tensor:
        """Project features [N, D] to embeddings [N, H]."""
        return self._second(F.gelu(self._first(features)))


class Llava:
    """A loaded checkpoint's vision tower, projector and Llama."""

    def __init__(
        self, weights: Weights, config: ModelConfig, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.config = config
        self.quantize = weights.scheme.name if weights.scheme else "none"
        self.llama = Llama(weights, config.text, device, dtype)
        self._tower: Tower | None = None
        self._projector: Projector | None = None
        if config.vision is not None:
            self._tower = Tower(weights, config, config.vision)
            self._projector = Projector(weights)

    @property
    def device(self) -> str:
        """The device's name in PyTorch."""
        return str(self.llama.device)

    @property
    def dtype(self) -> str:
        """The dtype of activations."""
        return str(self.llama.dtype).removeprefix("torch.")

    @cached_property
    def tower(self) -> str:
        """Digest of the tower's tensors, dtype and settings; '' without a tower."""
        return self._tower.digest() if self._tower else ""

    @torch.inference_mode()
    def encode(self, pixels: Float32) -> TorchFeatures:
        """Run the tower on preprocessed pixels [3, height, width]."""
        if self._tower is None:
            raise UsageError("this model is text-only: it cannot look at an image")
        on_device = torch.tensor(pixels).to(self.llama.device, self.llama.dtype)
        return TorchFeatures(self._tower(on_device))

    @torch.inference_mode()
    def project(self, features: Features) -> Float32:
        """Return the image embeddings [N, H] on the host."""
        return to_host(self.projected(features))

    def projected(self, features: Features) -> Tensor:
        """Return the image embeddings [N, H].  Raises UsageError for another backend's features."""
        if self._projector is None or not isinstance(features, TorchFeatures):
            raise UsageError("these image features are not ones this model can read")
        return self._projector(features.rows.to(self.llama.device, self.llama.dtype))
