"""PyTorch's functions that decoding needs, as a `Framework`.  V vocabulary."""

from functools import partial
from typing import Any

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.framework import Framework
from mmspec.ground.errors import BackendError
from mmspec_torch.device.device_io import to_host, upload


class TorchDraft(DeviceDraft[Tensor]):
    """A drafted chain or tree; only this backend's targets can verify it."""

    __slots__ = ()


class Inference(torch.inference_mode):
    """Inference mode; a full device is a BackendError, not a fault."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)
        if isinstance(error, torch.OutOfMemoryError):
            raise BackendError(
                "the device's memory is full: use fewer or smaller images, a shorter "
                "conversation, or `quantize=int4`"
            ) from error


def framework(device: torch.device) -> Framework[Tensor]:
    """Return PyTorch's functions on a device."""
    return Framework(
        xp=xp,
        concat=torch.cat,
        split=partial(torch.chunk, dim=-1),
        pick=lambda rows, places: rows.index_select(0, places),
        silu=F.silu,
        softmax=partial(torch.softmax, dim=-1),
        keys=lambda noise, count: upload(noise.keys(count), torch.int64, device).to(torch.int32),
        ids=partial(torch.arange, dtype=torch.int32, device=device),
        count=partial(torch.arange, device=device),
        integers=partial(upload, dtype=torch.int64, device=device),
        floats=partial(upload, dtype=torch.float32, device=device),
        zeros=partial(torch.zeros, device=device),
        top=top,
        draft_type=TorchDraft,
        start=lambda _: None,  # PyTorch computes without being asked
        settle=lambda *_: None,
        compile=lambda formula: formula,
        to_host=to_host,
        inference=Inference,
    )


def top(p: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest entries of p [..., V] and their indices; on ties the lowest."""
    # Non-negative floats sort like their bits; the index in the lower bits breaks ties.
    index = torch.arange(p.shape[-1], device=p.device)
    key = p.contiguous().view(torch.int32).to(torch.int64).bitwise_left_shift(32) - index
    indices = key.topk(count).indices
    return p.gather(-1, indices), indices
