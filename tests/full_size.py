"""Start-up, memory and plain speed of random weights in full size, beside what shapes say.

    python tests/full_size.py DIRECTORY [CARD]

writes the card's model, qwen3-vl-2b or qwen3.5-0.8b, and its quantized copies to DIRECTORY (8.7 or
1.7 GB) unless they are there. It loads each copy five times in processes of their own with one
thread and prints medians: seconds, peak memory after loading, and plain tokens per second of an
answer about an image in a chat.
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

REPEATS, TOKENS = 5, 16
BF16 = "bfloat16"
ARMS = {
    "qwen3-vl-2b": (("torch", 16, BF16), *(("mlx", bits, BF16) for bits in (16, 8, 4))),
    "qwen3.5-0.8b": tuple((b, 16, d) for b in ("torch", "mlx") for d in ("float32", BF16)),
}
"""Backend, bits of the copy, and type of activations."""
CLASSES = {"qwen3-vl-2b": "Qwen3VL", "qwen3.5-0.8b": "Qwen3_5"}


def main(directory: Path, card: str) -> None:
    arms = ARMS[card]
    for bits in sorted({bits for _, bits, _ in arms}, reverse=True):
        if not _copy(directory, card, bits).exists():
            _write(directory, card, bits)
    model = load_cards()[card].model
    assert model
    for backend, bits, dtype in arms:
        runs = [_run("load", backend, dtype, _copy(directory, card, bits)) for _ in range(REPEATS)]
        seconds, peaks, speeds = (median(column) for column in zip(*runs, strict=True))
        foreseen = weight_bytes(model, bits) * (1 + (dtype == "float32")) / 1e9
        click.echo(
            f"{backend}, {bits} bits, {dtype}: {seconds:.1f} s, peak {peaks:.1f} GB, weights by "
            f"shapes {foreseen:.1f} GB, {speeds:.2f} tokens/s"
        )


def _run(*words: object) -> list[float]:
    command = [sys.executable, __file__, *map(str, words)]
    found: list[float] = json.loads(subprocess.check_output(command))
    return found


def _copy(directory: Path, card: str, bits: int) -> Path:
    return directory / card / f"{bits}-bits"


def _write(directory: Path, card: str, bits: int) -> None:
    whole, copy = _copy(directory, card, 16), _copy(directory, card, bits)
    if bits == 16:
        copy.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(copy, card)
    else:
        quantize = ["-m", "mmspec_cli", "models", "quantize", "--bits", str(bits)]
        subprocess.run([sys.executable, *quantize, str(whole), str(copy)], check=True)


def _write_whole(path: Path, card: str) -> None:
    import torch
    import transformers

    torch.set_default_dtype(torch.bfloat16)
    config, model = load_cards()[card].config, load_cards()[card].model
    assert model
    text = config["text_config"] | {"head_dim": model.text.head_dim}
    if model.text.delta_net is None:
        rope = {"rope_type": "default", "rope_theta": 5e6}
        rope |= {"mrope_section": [24, 20, 20], "mrope_interleaved": True}
        text |= {"rope_parameters": rope}
    sizes = config | {"text_config": text} | factory_qwen.IDS
    name = CLASSES[card]
    whole = getattr(transformers, f"{name}Config")(**sizes)
    network = getattr(transformers, f"{name}ForConditionalGeneration")(whole)
    factory_qwen.written(network, path, factory_qwen.QwenSizes(patch=16), "bfloat16")


def load(backend: str, dtype: str, directory: str) -> list[float]:
    """Seconds of loading since start, peak memory in GB, and an answer's tokens per second."""
    started = perf_counter()
    import mmspec

    engine = mmspec.load(directory, draft="none", backend=backend, dtype=dtype, threads=1)
    seconds = perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    from PIL import Image

    image = mmspec.picture_from(Image.linear_gradient("L").convert("RGB").resize((320, 256)))
    options = mmspec.Options(drafting="none", max_new_tokens=TOKENS, exact="off")
    answer = engine.chat(options).reply("Which shapes are there?", [image])
    return [seconds, peak, answer.statistics.tokens_per_second]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["load", backend, dtype, directory]:
            click.echo(json.dumps(load(backend, dtype, directory)))
        case [directory]:
            main(Path(directory), "qwen3-vl-2b")
        case [directory, card] if card in ARMS:
            main(Path(directory), card)
        case _:
            sys.exit(__doc__)
