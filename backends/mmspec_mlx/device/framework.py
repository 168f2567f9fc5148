"""MLX's functions that decoding needs, as a `Framework`.  V vocabulary."""

from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import mlx.core as mx

from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.framework import Framework
from mmspec.ground.errors import BackendError
from mmspec_mlx.device import device_io
from mmspec_mlx.device.kernels import Kernels

FULL = "Insufficient Memory", "maximum allowed buffer size", "Unable to allocate"
"""What MLX says in a RuntimeError of a device without room for an array."""

BLOCK = 64
"""Number of entries whose largest one `top` compares first: a GPU sorts what it compares."""


class MlxDraft(DeviceDraft[mx.array]):
    """A drafted chain or tree; only this backend's targets can verify it."""

    __slots__ = ()


class Inference(AbstractContextManager[object]):
    """A full device is a BackendError, not a fault."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, RuntimeError) and any(text in str(error) for text in FULL):
            raise BackendError(
                "the device's memory is full: use fewer or smaller images, a shorter "
                "conversation, or a copy by `mmspec models quantize`"
            ) from error


def framework(kernels: Kernels) -> Framework[mx.array]:
    """Return MLX's functions on its default device."""
    return Framework(
        xp=mx,
        concat=mx.concatenate,
        split=lambda x, count: list(mx.split(x, count, axis=-1)),
        pick=partial(mx.take, axis=0),
        silu=lambda x: x * mx.sigmoid(x),
        softmax=partial(mx.softmax, axis=-1),
        keys=lambda noise, count: mx.array(noise.keys(count), dtype=mx.uint32),
        ids=partial(mx.arange, dtype=mx.uint32),
        count=mx.arange,
        integers=lambda values: mx.array(list(values), dtype=mx.int32),
        floats=lambda values: mx.array(list(values), dtype=mx.float32),
        zeros=mx.zeros,
        top=top,
        draft_type=MlxDraft,
        start=device_io.start,
        settle=mx.eval,
        compile=kernels.compile,
        to_host=device_io.to_host,
        inference=Inference,
    )


def top(p: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """Return the `count` largest entries of p [..., V] and their indices; on ties the lowest."""
    size = p.shape[-1]
    bits, index = p.view(mx.int32), mx.arange(size)  # non-negative floats sort like their bits
    if 2 * count * BLOCK < size and size % BLOCK == 0:
        blocks = mx.unflatten(bits, -1, (-1, BLOCK))
        best = mx.expand_dims(_largest(blocks.max(axis=-1), mx.arange(size // BLOCK), count), -1)
        bits = mx.flatten(mx.take_along_axis(blocks, best, axis=-2), -2)
        index = mx.flatten(best * BLOCK + mx.arange(BLOCK), -2)
    indices = _largest(bits, index, count)
    return mx.take_along_axis(p, indices, axis=-1), indices


def _largest(bits: mx.array, index: mx.array, count: int) -> mx.array:
    """Those of `index` [..., n] with the `count` largest bits [..., n]; on ties the lowest."""
    key = index - mx.left_shift(bits.astype(mx.int64), 32)
    least = mx.sort(mx.partition(key, count - 1, axis=-1)[..., :count], axis=-1)
    return (least & 0xFFFFFFFF).astype(mx.int32)
