"""Masks of rows with padding.  R rows, n columns."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.stored_states import STEP
from mmspec_torch.device.device_io import upload
from mmspec_torch.network.attention import hiding_number


class Padding:
    """Hides padding; all later columns have tokens."""

    def __init__(
        self, is_padding: Sequence[Sequence[bool]], dtype: torch.dtype, device: torch.device
    ) -> None:
        """is_padding: [R, n]."""
        shades = [[hiding_number(dtype) * padding for padding in row] for row in is_padding]
        self._mask = F.pad(upload(shades, dtype, device)[:, None, None], (0, STEP))

    def mask(self, columns: int) -> Tensor:
        """Return a mask [R, 1, 1, columns or more]; the same one as long as it is wide enough."""
        missing = columns - self._mask.shape[-1]
        if missing > 0:
            self._mask = F.pad(self._mask, (0, missing + STEP))
        return self._mask
