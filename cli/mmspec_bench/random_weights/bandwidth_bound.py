"""The lower bound on a forward over few rows: the time to copy the bytes that it reads."""

from dataclasses import dataclass
from math import prod

from mmspec.chat.engine import Engine
from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.head_config import HeadConfig
from mmspec.checkpoints.head_manifest import head_manifest
from mmspec.checkpoints.manifest import EMBEDDING, LM_HEAD, manifest
from mmspec.checkpoints.quantization import read_scheme
from mmspec.families.decoder import TextConfig
from mmspec_bench.measure.costs import median_seconds
from mmspec_bench.weight_memory import WIDTHS, held_bytes

COPY_BYTES, CPU_COPY_BYTES = 2**30, 2**26
"""Number of bytes in a timed copy on GPU and CPU, several times larger than any cache."""
REPEATS = 9


@dataclass(frozen=True, slots=True)
class Cost:
    """The median seconds of a forward, and the bytes that it must read."""

    seconds: float
    bytes: int

    def bound(self, bandwidth: float) -> float:
        """Seconds to read the bytes at `bandwidth`, in bytes per second."""
        return self.bytes / bandwidth


def copy_bandwidth(engine: Engine) -> float:
    """Bytes per second of a large copy on the target's device, counting reads and writes."""
    device = engine.target.model.device
    size = CPU_COPY_BYTES if device == "cpu" else COPY_BYTES
    copy = engine.backend.copier(size, device)
    copy()
    return 2 * size / median_seconds(engine, copy, REPEATS)


def step_bytes(config: ModelConfig, dtype: str, positions: int, quantize: str = "none") -> int:
    """Bytes that a forward reads: layers, output head, and the cache of `positions`."""
    head = EMBEDDING if config.text.tie_word_embeddings else LM_HEAD
    read = (head, "language_model.layers.", "language_model.norm.")
    width, scheme = WIDTHS[dtype], read_scheme(quantize)
    tensors = [(name, s) for name, s in manifest(config).items() if name.startswith(read)]
    weights = sum(held_bytes(name, shape, width, scheme) for name, shape in tensors)
    return weights + width * positions * _position_numbers(config.text)


def head_bytes(head: HeadConfig, target: ModelConfig, dtype: str, positions: int) -> int:
    """Bytes that a head reads per token: its tensors, its cache, the target's output head."""
    own = sum(prod(shape) for shape in head_manifest(head).values())
    output = target.text.vocab_size * target.text.hidden_size
    cache = positions * _position_numbers(head.layer) if head.layer else 0
    return WIDTHS[dtype] * (own + output + cache)


def _position_numbers(text: TextConfig) -> int:
    return 2 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim
