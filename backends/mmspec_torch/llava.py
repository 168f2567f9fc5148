"""LLaVA: CLIP's features, projected into Llama's embeddings; or Llama alone.

Shape letters: N visual positions of one image, D width of the tower, H width of the decoder.
"""

import math
from collections.abc import Sequence
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.adaptive import Adaptation
from mmspec.config import ModelConfig
from mmspec.errors import UsageError
from mmspec.sampling import Sampling
from mmspec.seam import Features, Float32
from mmspec.tree import Tree
from mmspec_torch.clip import Tower, linear
from mmspec_torch.device import upload
from mmspec_torch.drafter import TorchDrafter
from mmspec_torch.llama import Llama
from mmspec_torch.row import Row
from mmspec_torch.static.statics import Statics
from mmspec_torch.target import TorchTarget
from mmspec_torch.weights import Weights


class TorchFeatures:
    """Vision features [N, D] of one image on the device."""

    def __init__(self, rows: Tensor) -> None:
        """Keep rows [N, D]."""
        self.rows = rows
        self._pooled: dict[int, TorchFeatures] = {rows.shape[0]: self}

    @property
    def positions(self) -> int:
        """N."""
        return self.rows.shape[0]

    @torch.inference_mode()
    def pooled(self, positions: int) -> "TorchFeatures":
        """Average-pool the square grid to `positions`; computed once and kept."""
        if positions not in self._pooled:
            self._pooled[positions] = TorchFeatures(pooled(self.rows, positions))
        return self._pooled[positions]

    def numpy(self) -> Float32:
        """The features [N, D] on the host."""
        return _to_host(self.rows)


class Projector:
    """Two linear layers with an exact GELU between."""

    def __init__(self, weights: Weights) -> None:
        """Take the projector's tensors."""
        self._first = linear(weights, "multi_modal_projector.linear_1")
        self._second = linear(weights, "multi_modal_projector.linear_2")

    def __call__(self, features: Tensor) -> Tensor:
        """Project features [N, D] to embeddings [N, H]."""
        return self._second(F.gelu(self._first(features)))


class TorchModel:
    """A loaded checkpoint."""

    def __init__(
        self, weights: Weights, config: ModelConfig, device: torch.device, dtype: torch.dtype
    ) -> None:
        """Take what `config` needs; nothing else may be in `weights`."""
        self.config = config
        self.quantize = weights.scheme.word if weights.scheme else "none"
        self.llama = Llama(weights, config.text, device, dtype)
        self.statics = Statics(self.llama)
        self._tower: Tower | None = None
        self._projector: Projector | None = None
        if config.vision is not None:
            self._tower = Tower(weights, config, config.vision)
            self._projector = Projector(weights)

    @property
    def device(self) -> str:
        """As PyTorch names it."""
        return str(self.llama.device)

    @property
    def dtype(self) -> str:
        """The type activations are computed in."""
        return str(self.llama.dtype).removeprefix("torch.")

    @cached_property
    def tower(self) -> str:
        """Digest of all that decides an image's features; '' without a tower."""
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
        """The projector's output [N, H] on the host."""
        return _to_host(self.projected(features))

    def open_target(self, sampling: Sampling, watch: bool = False) -> TorchTarget:
        """Start an empty sequence; see `mmspec.seam.Model.open_target`."""
        return TorchTarget(self, sampling, watch)

    def open_drafter(
        self,
        branches: int,
        vocabulary: int,
        sampling: Sampling,
        adaptation: Adaptation | None = None,
        tree: Tree | None = None,
    ) -> TorchDrafter:
        """Start an empty sequence of `branches` rows for a target of `vocabulary` ids."""
        return TorchDrafter(self, branches, vocabulary, sampling, adaptation, tree)

    def embed(self, row: Row, start: int, stop: int) -> Tensor:
        """Embeddings [n, H] of a row's columns, images in their places, anything as padding."""
        ids = self.clamped(row.tokens[start:stop])
        x = self.llama.embed(upload(ids, torch.int64, self.llama.device))
        for origin, end, features in row.images:
            low, high = max(origin, start), min(end, stop)
            if low < high:
                x[low - start : high - start] = self.projected(features)[
                    low - origin : high - origin
                ]
        return x

    def clamped(self, tokens: Sequence[int]) -> list[int]:
        """Ids that have embeddings, in place of padding and of a target's that have none here."""
        last = self.config.text.vocab_size - 1
        return [min(max(token, 0), last) for token in tokens]

    def projected(self, features: Features) -> Tensor:
        """The projector's output [N, H] on the device; raises UsageError for other features."""
        if self._projector is None or not isinstance(features, TorchFeatures):
            raise UsageError("these image features are not ones this model can read")
        return self._projector(features.rows.to(self.llama.device, self.llama.dtype))


def pooled(rows: Tensor, positions: int) -> Tensor:
    """Average-pool the square grid of rows [N, D] to [positions, D].  Raises UsageError."""
    grid, side = math.isqrt(rows.shape[0]), math.isqrt(positions)
    if grid**2 != rows.shape[0] or side**2 != positions or not side or grid % side:
        raise UsageError(
            f"{rows.shape[0]} visual positions cannot be pooled to {positions}: "
            f"give a square whose side divides {grid}"
        )
    blocks = rows.view(side, grid // side, side, grid // side, -1)
    return blocks.mean(dim=(1, 3)).flatten(0, 1)


def _to_host(tensor: Tensor) -> Float32:
    host: Float32 = tensor.float().cpu().numpy()
    return host
