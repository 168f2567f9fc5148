"""Writes docs/results/exact_price.csv: target forwards with exact rows and without, in turns.

    python tests/exact_price.py [NAME...] > FILE

The models are `mini` and one layer of LLaVA-1.5-7B's and of Qwen3-8B's size with random weights,
which need 3 GB of temporary files; NAME measures those named alone.  A CPU would probe these layers
on MLX for long: there forwards go by blocks of up to 64 rows, and nobody asks whether they are
exact.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from mmspec.chat.engine import Engine, load
from mmspec.decoding.contract import Target
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.noise import NO_NOISE
from mmspec.diagnostics.check import prefilled_target
from mmspec.diagnostics.prompts import Prompt
from mmspec_bench.measure.calibrate import seconds_of
from mmspec_bench.prompts import prompts_for, text_prompts
from mmspec_bench.table import csv_text
from mmspec_cli.main import main as mmspec
from support.random_checkpoints import write_pair

GAMMAS = (0, 1, 3, 5, 7)
"""Draft lengths of the rounds that are timed; 0 is a plain token."""
QUESTION = text_prompts(1)[0]
"""Asked of the layers: a CPU takes minutes to read an image with them."""
LAYERS = ("llama-7b-layer", "qwen3-8b-layer")
LAYER_ROWS = ExactRows(1, 64)
REPEATS, LAYER_REPEATS = 20, 5
"""Forwards of each kind whose median counts."""


def line(engine: Engine, prompt: Prompt, repeats: int, **case: str) -> dict[str, Any]:
    """The cost of exact rows by draft length, and a plain token's milliseconds."""
    prices, plain = {}, 0.0
    ways = engine.exact_rows("on"), None
    targets = [prefilled_target(engine, prompt.message, (), way) for way in ways]
    for gamma in GAMMAS:
        exact, ordinary = seconds(engine, targets, gamma, repeats)
        plain = plain or ordinary
        prices[f"gamma_{gamma}" if gamma else "plain"] = round(exact / ordinary, 3)
    return case | prices | {"plain_token_ms": round(1e3 * plain, 2)}


def seconds(engine: Engine, targets: Sequence[Target], gamma: int, repeats: int) -> list[float]:
    """Median seconds of a forward over gamma + 1 rows by each of the targets in turn."""
    draft = HostDraft([1] * gamma) if gamma else None
    turns = [
        [seconds_of(engine, partial(target.verify, draft, NO_NOISE)) for target in targets]
        for _ in range(repeats + 2)
    ]
    return [median(column) for column in zip(*turns[2:], strict=True)]  # two warm up


def mini() -> Iterator[dict[str, Any]]:
    """Both backends in both number types."""
    for backend, dtype in product(("torch", "mlx"), ("float32", "bfloat16")):
        engine = load("mini", "none", backend=backend, dtype=dtype, threads=1)
        prompt = prompts_for(engine.target.model.config, 1)[0]
        yield line(engine, prompt, REPEATS, model="mini", backend=backend, weights=dtype)


def layer(name: str, directory: Path) -> Iterator[dict[str, Any]]:
    """Both backends in bfloat16 and in 4 bits."""
    whole, quantized = write_pair(name, directory)[0], directory / f"{name}-4-bits"
    options: dict[str, Any] = {"dtype": "bfloat16", "threads": 1}
    for bits, weights in (("none", "bfloat16"), ("int4", "4 bits")):
        engine = load(str(whole), "none", backend="torch", quantize=bits, **options)
        yield line(engine, QUESTION, LAYER_REPEATS, model=name, backend="torch", weights=weights)
    with redirect_stdout(sys.stderr):
        assert mmspec(["models", "quantize", str(whole), str(quantized)]) == 0
    for place, weights in ((whole, "bfloat16"), (quantized, "4 bits")):
        engine = load(str(place), "none", backend="mlx", **options)
        exact = replace(engine, exactness={"on": LAYER_ROWS, "off": None})
        yield line(exact, QUESTION, LAYER_REPEATS, model=name, backend="mlx", weights=weights)


def main(*names: str) -> None:
    """Measure the models named, or all, and print the table."""
    lines: list[dict[str, Any]] = []
    with TemporaryDirectory() as directory:
        for name in names or ("mini", *LAYERS):
            for case in mini() if name == "mini" else layer(name, Path(directory)):
                sys.stderr.write(f"{case}\n")
                lines.append(case)
    sys.stdout.write(csv_text(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
