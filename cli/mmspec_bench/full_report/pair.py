"""The pair that is measured, in each number type; refuses what does not fit the machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryDirectory

from mmspec.chat.engine import Engine, load
from mmspec.chat.plugins import load_backend
from mmspec.checkpoints.config import read_config
from mmspec.diagnostics.doctor import memory_bytes
from mmspec.ground.errors import MmspecError
from mmspec.ground.progress import Progress, silent
from mmspec_bench.weight_memory import weight_bytes

PACKED_BACKENDS = ("mlx",)
"""Backends that compute with quantized weights directly; others unpack them."""
MEMORY_SHARE = 0.8
"""Share of the machine's memory for weights; the rest is for caches, activations and the system."""
GROUP = 64
"""Inputs that share a scale in a quantized copy."""


class Inapplicable(MmspecError):
    """Raised by a stage that cannot run on this machine, which is no failure."""


@dataclass(frozen=True, slots=True)
class NumberType:
    """A type in which a target decodes."""

    name: str
    dtype: str = "auto"
    quantize: str = "none"
    """The scheme in which float weights are loaded."""
    bits: int | None = None
    """Bits of the quantized copy that is loaded; None for the checkpoint itself."""


FLOATS = tuple(NumberType(name, dtype=name) for name in ("float32", "bfloat16", "float16"))
LOADED = tuple(NumberType(name, quantize=name) for name in ("int8", "int4"))
COPIED = tuple(NumberType(f"{bits} bits", bits=bits) for bits in (8, 4))


@dataclass(frozen=True, slots=True)
class Pair:
    """The directories of a target and a draft for each backend."""

    model: dict[str, Path]
    draft: dict[str, Path]
    threads: int | None = None
    """CPU threads, as for `mmspec.chat.engine.load`."""
    progress: Progress = silent
    """Shows what is loaded, and measured before a first answer."""

    def load(
        self, backend: str, model: Path | None = None, dtype: str = "auto", quantize: str = "none"
    ) -> Engine:
        """Load the pair on one backend; raises Inapplicable before that if memory is too small."""
        directory = model or self.model[backend]
        require_room(backend, directory, dtype if quantize == "none" else "bfloat16")
        return load(
            str(directory),
            str(self.draft[backend]),
            backend=backend,
            dtype=dtype,
            quantize=quantize,
            threads=self.threads,
            progress=self.progress,
        )

    def types(self, backend: str) -> tuple[NumberType, ...]:
        """The number types in which a backend can decode the target."""
        if read_config(self.model[backend]).quantization:
            return FLOATS
        return FLOATS + (COPIED if backend in PACKED_BACKENDS else LOADED)

    @contextmanager
    def opened(self, backend: str, kind: NumberType) -> Iterator[Engine]:
        """Context that yields the pair with the target in a number type."""
        if kind.bits is None:
            yield self.load(backend, dtype=kind.dtype, quantize=kind.quantize)
            return
        with TemporaryDirectory() as folder:
            source, copy = self.model[backend], Path(folder) / "target"
            require_room(backend, source, "bfloat16")
            _require_disk(source, Path(folder))
            load_backend(backend).quantize(source, copy, bits=kind.bits, group_size=GROUP)
            yield self.load(backend, copy)


def require_room(backend: str, model: Path, dtype: str) -> None:
    """Raise Inapplicable if the weights exceed MEMORY_SHARE of the machine's memory; skips CUDA."""
    memory, device = memory_bytes(), load_backend(backend).describe()["devices"][0]
    if memory is None or device == "cuda":
        return
    dtype = "float32" if dtype == "auto" and device == "cpu" else dtype
    needed = weight_bytes(model, dtype, packed=backend in PACKED_BACKENDS)
    room = MEMORY_SHARE * memory
    if needed > room:
        kind = "its own type" if dtype == "auto" else dtype
        raise Inapplicable(
            f"{model.name}'s weights take {needed / 1e9:.1f} GB in {kind} on {backend}; of this "
            f"machine's {memory / 1e9:.1f} GB at most {room / 1e9:.1f} are for them"
        )


def _require_disk(source: Path, folder: Path) -> None:
    """Raise Inapplicable if a copy in half of the bytes might not fit the disk of `folder`."""
    needed, free = weight_bytes(source, "bfloat16", packed=False), disk_usage(folder).free
    if needed > free:
        raise Inapplicable(
            f"a quantized copy of {source.name} needs up to {needed / 1e9:.1f} GB in {folder}, "
            f"which has {free / 1e9:.1f} GB free"
        )
