"""Random tensors as safetensors files, several where one would be large."""

import json
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

from mmspec.bench.synthetic.noise import Noise
from mmspec.checkpoint import INDEX_FILE, WEIGHTS_FILE
from mmspec.manifest import Shape

ITEM_BYTES = 2
"""Of bfloat16."""
SHARD_BYTES = 4 * 2**30
"""The most that a file holds, but for a tensor that is larger."""

Tensors = Mapping[str, Shape]


def total_bytes(tensors: Tensors) -> int:
    """Bytes of tensors as they are written, and as a device holds them in 16 bits."""
    return ITEM_BYTES * sum(prod(shape) for shape in tensors.values())


def write_weights(
    directory: Path, tensors: Tensors, noise: Noise, limit: int = SHARD_BYTES
) -> None:
    """Write `model.safetensors`, or as many shards of up to `limit` bytes as are needed."""
    shards = _shards(tensors, limit)
    if len(shards) == 1:
        _write(directory / WEIGHTS_FILE, tensors, noise)
        return
    homes: dict[str, str] = {}
    for number, names in enumerate(shards, start=1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        _write(directory / file, {name: tensors[name] for name in names}, noise)
        homes |= dict.fromkeys(names, file)
    index = {"metadata": {"total_size": total_bytes(tensors)}, "weight_map": homes}
    (directory / INDEX_FILE).write_text(json.dumps(index), encoding="utf-8")


def _shards(tensors: Tensors, limit: int) -> Sequence[Sequence[str]]:
    shards: list[list[str]] = [[]]
    left = limit
    for name, shape in tensors.items():
        size = ITEM_BYTES * prod(shape)
        if size > left and shards[-1]:
            shards.append([])
            left = limit
        shards[-1].append(name)
        left -= size
    return shards


def _write(file: Path, tensors: Tensors, noise: Noise) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors.items():
        start, end = end, end + ITEM_BYTES * prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name, shape in tensors.items():
            for piece in noise.pieces(name, shape):
                stream.write(piece.data)
