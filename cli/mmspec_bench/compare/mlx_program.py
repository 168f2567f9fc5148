"""Runs another MLX project with this project's device, precision and BLAS."""

from typing import Any

from mmspec_bench.script_io import Program
from mmspec_mlx.device import blas  # before mlx.core, which binds its matrix products on import


class MlxProgram(Program):
    """Prepares the device and the weights, and describes them."""

    def __init__(self, device: str) -> None:
        import mlx.core as mx

        if device != "auto":
            mx.set_default_device(mx.Device(mx.gpu if device == "gpu" else mx.cpu))
        self._on_gpu = mx.default_device().type == mx.DeviceType.gpu
        self._dtype = ""

    def with_dtype(self, model: Any, dtype: str) -> Any:
        """The model with floats of `dtype`; 'auto' is float32 on a CPU, else as stored."""
        import mlx.core as mx
        from mlx.utils import tree_flatten

        kind = "float32" if dtype == "auto" and not self._on_gpu else dtype
        if kind != "auto":
            model.set_dtype(getattr(mx, kind))
        mx.eval(model.parameters())
        values: Any = tree_flatten(model.parameters())
        kinds = {str(value.dtype).removeprefix("mlx.core.") for _, value in values}
        self._dtype = ", ".join(sorted(kinds))
        return model

    def describe(self) -> dict[str, Any]:
        """Names of device, precision and BLAS, for reports."""
        device = "gpu" if self._on_gpu else "cpu"
        return {"device": device, "dtype": self._dtype} | blas.describe()

    def device_bytes(self) -> int:
        """Peak bytes by MLX's counter on a GPU; 0 on a CPU, where the process's peak is used."""
        import mlx.core as mx

        return mx.get_peak_memory() if self._on_gpu else 0
