"""Vision features on PyTorch, and what every family's tower and projector offer.

Shape letters: N visual positions of one image, D numbers of a position, W numbers that it becomes
in the decoder: an embedding [H] first.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Protocol

import torch
from torch import Tensor

from mmspec.decoding.contract import Float32
from mmspec.decoding.grid_features import GridFeatures
from mmspec_torch.device.device_io import to_host


class TorchFeatures(GridFeatures):
    """Vision features [N, D] of one image on the device."""

    rows: Tensor

    def numpy(self) -> Float32:
        """Copy the features [N, D] to the host.  Blocks."""
        return to_host(self.rows)

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts), dim=-1)


class Vision(Protocol):
    """A family's tower and projector on a device."""

    def encode(self, pixels: Tensor) -> TorchFeatures:
        """Run the tower on pixel values [3, height, width]."""

    def place(self, rows: Tensor) -> Tensor:
        """What features [N, D] become in the decoder, [N, W]."""

    @property
    def settings(self) -> str:
        """What else than the tensors decides what the tower computes."""

    @property
    def tensors(self) -> list[Tensor]:
        """The tower's tensors, always in the same order."""


def digest(vision: Vision) -> str:
    """Return the SHA-256 of a tower's tensors, dtype and settings."""
    tensors = vision.tensors
    total = sha256(f"{tensors[0].dtype} {vision.settings}".encode())
    for tensor in tensors:
        total.update(tensor.contiguous().cpu().view(torch.uint8).numpy().data)
    return total.hexdigest()
