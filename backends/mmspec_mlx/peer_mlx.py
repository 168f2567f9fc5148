"""What the workers of other projects on MLX share: the device, the precision, the account."""

from importlib.metadata import version
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from mmspec_mlx import blas


def use_device(name: str) -> None:
    """Make `cpu` or `gpu` MLX's default; 'auto' leaves it."""
    if name != "auto":
        mx.set_default_device(mx.Device(mx.gpu if name == "gpu" else mx.cpu))


def on_gpu() -> bool:
    """Whether MLX computes on a GPU."""
    return mx.default_device().type == mx.DeviceType.gpu


def with_dtype(model: Any, dtype: str) -> Any:
    """The model with its floats in `dtype`; 'auto' is float32 on a CPU, as stored elsewhere."""
    if dtype == "auto":
        dtype = "stored" if on_gpu() else "float32"
    kinds = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}
    if dtype in kinds:
        model.set_dtype(kinds[dtype])
    mx.eval(model.parameters())
    return model


def describe(package: str, model: Any) -> dict[str, Any]:
    """Versions, device, precision and BLAS."""
    values: Any = tree_flatten(model.parameters())
    kinds = sorted({str(value.dtype).removeprefix("mlx.core.") for _, value in values})
    return {
        package: version(package),
        "mlx": version("mlx"),
        "transformers": version("transformers"),
        "device": "gpu" if on_gpu() else "cpu",
        "dtype": ", ".join(kinds),
    } | blas.describe()


def device_bytes() -> int:
    """MLX's own peak on a GPU; 0 on a CPU, where the process says it all."""
    return mx.get_peak_memory() if on_gpu() else 0
