"""What a forward over few rows cannot be faster than: the bytes it reads, copied at full speed."""

from dataclasses import dataclass
from math import prod
from statistics import median

from mmspec.bench.costs import timed
from mmspec.config import ModelConfig, TextConfig
from mmspec.engine import Engine
from mmspec.heads.config import HeadConfig
from mmspec.heads.manifest import head_manifest
from mmspec.manifest import EMBEDDING, LM_HEAD, manifest
from mmspec.quantization import held_bytes, read_scheme

ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
COPIED = {"cpu": 2**26}
"""Bytes that are copied to time copies, by device; several times any cache elsewhere."""
COPIED_ELSEWHERE = 2**30
REPEATS = 9


@dataclass(frozen=True, slots=True)
class Cost:
    """The median seconds of something, and the bytes that it has to read."""

    seconds: float
    bytes: int

    def floor(self, bandwidth: float) -> float:
        """Seconds in which the bytes can be read at `bandwidth`, in bytes per second."""
        return self.bytes / bandwidth


def copy_bandwidth(engine: Engine) -> float:
    """Bytes per second of a large copy on the target's device, those read and those written."""
    device = engine.target.model.device
    size = COPIED.get(device, COPIED_ELSEWHERE)
    copy = engine.backend.copier(size, device)
    copy()
    return 2 * size / median(timed(engine, copy) for _ in range(REPEATS))


def step_bytes(config: ModelConfig, dtype: str, positions: int, quantize: str = "none") -> int:
    """Bytes that one forward reads: layers and output head, and the cache of `positions`."""
    head = EMBEDDING if config.text.tie_word_embeddings else LM_HEAD
    read = (head, "language_model.layers.", "language_model.norm.")
    width, scheme = ITEM_BYTES[dtype], read_scheme(quantize)
    tensors = [(name, s) for name, s in manifest(config).items() if name.startswith(read)]
    weights = sum(held_bytes(name, shape, width, scheme) for name, shape in tensors)
    return weights + width * positions * cached(config.text)


def head_bytes(head: HeadConfig, target: ModelConfig, dtype: str, positions: int) -> int:
    """Bytes that one token of a head reads: its own tensors, its cache, the target's output."""
    own = sum(prod(shape) for shape in head_manifest(head).values())
    output = target.text.vocab_size * target.text.hidden_size
    cache = positions * cached(head.layer) if head.layer else 0
    return ITEM_BYTES[dtype] * (own + output + cache)


def cached(text: TextConfig) -> int:
    """Keys and values of one position, in numbers."""
    return 2 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim
