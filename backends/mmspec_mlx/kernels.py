"""The operations for which a GPU and a CPU want different words.

MLX's fused calls are one launch on a GPU.  On a CPU they are lists of plain operations, with an
exponential four times as slow as `power`; the same formulas cost less when spelled out for it.
Every pair below gives the same result up to rounding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import mlx.core as mx

from mmspec_mlx import host
from mmspec_mlx.products import each_with_each

Norm = Callable[[mx.array], mx.array]
"""Divides x [..., n, H] by its root mean square and multiplies it with a weight."""
Formula = Callable[..., Any]
"""Makes arrays of arrays, and nothing else."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """What a decoder is made of besides matrix products.

    norm: weight [H] and epsilon give a Norm.
    attention: queries [R, Q, n, width], keys and values [R, K, columns, width], Q a multiple of
    K, and an additive mask or None give [R, Q, n, width].
    gated: gate and up [...] give silu(gate) * up.
    arrays: the namespace to call `mmspec.maths` with.
    ahead: told of each layer's output while the next layer is listed.
    compiled: a function of arrays [...], its shapes fixed, as fast as it can be had.
    """

    norm: Callable[[mx.array, float], Norm]
    attention: Callable[[mx.array, mx.array, mx.array, mx.array | None], mx.array]
    gated: Callable[[mx.array, mx.array], mx.array]
    arrays: Any
    ahead: Callable[[mx.array], None]
    compiled: Callable[[Formula], Formula]


def fused_norm(weight: mx.array, epsilon: float) -> Norm:
    """MLX's own norm."""
    return lambda x: mx.fast.rms_norm(x, weight, epsilon)


def fused_attention(
    queries: mx.array, keys: mx.array, values: mx.array, mask: mx.array | None
) -> mx.array:
    """MLX's own attention."""
    scale = queries.shape[-1] ** -0.5
    return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=mask)


def fused_gated(gate: mx.array, up: mx.array) -> mx.array:
    """The textbook formula."""
    return gate * mx.sigmoid(gate) * up


def plain_norm(weight: mx.array, epsilon: float) -> Norm:
    """Fold the mean's division by H into the weight and epsilon; sum one row by a product."""
    width = weight.shape[0]
    scaled, least = weight * width**0.5, mx.array([[epsilon * width]])

    def normalised(x: mx.array) -> mx.array:
        if x.shape[-2] == 1:
            squares = mx.addmm(least, x, x.swapaxes(-1, -2))
        else:
            squares = mx.sum(x * x, axis=-1, keepdims=True) + least
        result: mx.array = x * mx.rsqrt(squares) * scaled
        return result

    return normalised


def plain_attention(
    queries: mx.array, keys: mx.array, values: mx.array, mask: mx.array | None
) -> mx.array:
    """Divide by the softmax's sum only after the product with the values, unless there is one row.

    One row has so few scores that one operation with a slow exponential beats five.
    """
    rows, heads, n, width = queries.shape
    grouped = (queries * width**-0.5).reshape(rows, keys.shape[1], -1, width)
    scores = each_with_each(grouped, keys)
    if mask is not None:
        scores = (scores.reshape(rows, heads, n, -1) + mask).reshape(scores.shape)
    if grouped.shape[2] == 1:
        return (mx.softmax(scores, axis=-1) @ values).reshape(queries.shape)
    weights = exponential(scores - mx.max(scores, axis=-1, keepdims=True))
    seen = (weights @ values) / mx.sum(weights, axis=-1, keepdims=True)
    return seen.reshape(queries.shape)


def plain_gated(gate: mx.array, up: mx.array) -> mx.array:
    """Divide gate * up by 1 + e^-gate."""
    return gate * up / (1 + mx.power(1 / math.e, gate))


def exponential(x: mx.array) -> mx.array:
    """Raise e to x."""
    return mx.power(math.e, x)


def as_written(formula: Formula) -> Formula:
    """Leave a formula to be listed anew each time: compiling for a CPU calls a C++ compiler."""
    return formula


def unhurried(_: mx.array) -> None:
    """Leave the work to whoever asks for a result: a GPU's commands are sent off in bulk."""


FUSED = Kernels(fused_norm, fused_attention, fused_gated, mx, unhurried, as_written)

COMPILED = replace(FUSED, gated=mx.compile(fused_gated, shapeless=True), compiled=mx.compile)

PLAIN = Kernels(
    plain_norm,
    plain_attention,
    plain_gated,
    SimpleNamespace(**(vars(mx) | {"exp": exponential})),
    host.start,
    as_written,
)


def kernels(dtype: mx.Dtype) -> Kernels:
    """Choose for MLX's default device; the plain ones are exact enough in float32 alone."""
    if mx.default_device() == mx.Device(mx.gpu):
        return COMPILED
    return PLAIN if dtype == mx.float32 else FUSED
