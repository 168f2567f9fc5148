"""Start-up and memory of a Qwen3-VL-2B of random weights in full size, beside what shapes say.

    python tests/full_size.py DIRECTORY

writes the model to DIRECTORY (4.3 GB, and 4.4 GB in 8 and 4 bits) unless it is there, loads each
copy five times in processes of their own, and prints median seconds and peak memory.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import click

from mmspec.checkpoints.cards import load_cards
from mmspec.checkpoints.manifest import weight_bytes
from support import factory_qwen

CARD = "qwen3-vl-2b"
REPEATS = 5
ARMS = (("torch", 16), ("mlx", 16), ("mlx", 8), ("mlx", 4))


def main(directory: Path) -> None:
    for bits in (16, 8, 4):
        if not _copy(directory, bits).exists():
            _write(directory, bits)
    model = load_cards()[CARD].model
    assert model
    for backend, bits in ARMS:
        command = [sys.executable, __file__, backend, str(_copy(directory, bits))]
        runs = [json.loads(subprocess.check_output(command)) for _ in range(REPEATS)]
        seconds, peaks = zip(*runs, strict=True)
        foreseen = weight_bytes(model, bits) / 1e9
        click.echo(f"{backend}, {bits} bits: {median(seconds):.1f} s, peak {median(peaks):.1f} GB, "
              f"weights by shapes {foreseen:.1f} GB")  # fmt: skip


def _copy(directory: Path, bits: int) -> Path:
    return directory / f"{bits}-bits"


def _write(directory: Path, bits: int) -> None:
    whole = _copy(directory, 16)
    if bits == 16:
        _write_whole(whole)
    else:
        quantize = ["-m", "mmspec_cli", "models", "quantize", "--bits", str(bits)]
        subprocess.run(
            [sys.executable, *quantize, str(whole), str(_copy(directory, bits))], check=True
        )


def _write_whole(path: Path) -> None:
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    torch.set_default_dtype(torch.bfloat16)
    config = load_cards()[CARD].config
    rope = {"rope_type": "default", "rope_theta": 5e6}
    rope |= {"mrope_section": [24, 20, 20], "mrope_interleaved": True}
    text = config["text_config"] | {"head_dim": 128, "rope_parameters": rope}
    sizes = config | {"text_config": text} | factory_qwen.IDS
    model = Qwen3VLForConditionalGeneration(Qwen3VLConfig(**sizes))
    factory_qwen.written(model, path, factory_qwen.QwenSizes(patch=16), "bfloat16")


def load(backend: str, directory: str) -> None:
    """Load a copy and print the seconds since start and the peak memory in GB."""
    started = perf_counter()
    import mmspec

    mmspec.load(directory, draft="none", backend=backend, dtype="bfloat16", threads=1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    click.echo(json.dumps([perf_counter() - started, peak]))


if __name__ == "__main__":
    match sys.argv[1:]:
        case [directory]:
            main(Path(directory))
        case [backend, directory]:
            load(backend, directory)
        case _:
            sys.exit(__doc__)
