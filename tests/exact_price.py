"""What exact decoding costs: target forwards with exact rows and without, in turns.

    python tests/exact_price.py --model mini [--backend mlx] [--dtype bfloat16] [--quantize int4]
    python tests/exact_price.py --layers DIRECTORY llama-7b-layer qwen3-8b-layer

The second form writes each layer's random weights to DIRECTORY (1.1 GB, and 0.3 GB in 4 bits) and
times forwards on MLX, which a CPU probes for long, by blocks of up to 64 rows; it does not probe
whether they are exact.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from mmspec.chat.engine import Engine, load
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.noise import NO_NOISE
from mmspec.diagnostics.single_turn import prefilled_target
from mmspec_bench.measure.calibrate import seconds_of
from mmspec_bench.prompts import prompts_for
from mmspec_cli.main import main as mmspec
from support.random_checkpoints import write_pair

GAMMAS = (0, 1, 3, 5, 7)
"""Draft lengths of the rounds that are timed; 0 is a plain token."""
LAYER_ROWS = ExactRows(1, 64)


def seconds(engine: Engine, gamma: int, repeats: int) -> list[float]:
    """Median seconds of a forward over gamma + 1 rows, with exact rows and without."""
    prompt = prompts_for(engine.target.model.config, 1)[0]
    ways = engine.exact_rows("on"), None
    targets = [prefilled_target(engine, prompt.message, (), way) for way in ways]
    draft = HostDraft([1] * gamma) if gamma else None
    turns = [
        [seconds_of(engine, partial(target.verify, draft, NO_NOISE)) for target in targets]
        for _ in range(repeats + 2)
    ]
    return [median(column) for column in zip(*turns[2:], strict=True)]  # two warm up


def layers(directory: Path, names: list[str]) -> Iterator[tuple[str, Engine]]:
    """Yield every layer's engine, in bfloat16 and in 4 bits, with its title."""
    for name in names:
        whole, quantized = write_pair(name, directory)[0], directory / f"{name}-4-bits"
        if not quantized.exists():
            mmspec(["models", "quantize", str(whole), str(quantized)])
        for place, kind in ((whole, "bfloat16"), (quantized, "4 bits")):
            engine = load(str(place), "none", backend="mlx", dtype="bfloat16", threads=1)
            yield f"{name}, {kind}", replace(engine, exactness={"on": LAYER_ROWS, "off": None})


def main() -> None:
    """Measure as the command line says, and print a line for each draft length."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="mini")
    parser.add_argument("--backend", default="torch")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--quantize", default="none")
    parser.add_argument("--layers", nargs="+", metavar=("DIRECTORY", "NAME"))
    parser.add_argument("--repeats", type=int)
    given = parser.parse_args()
    if given.layers:
        engines = layers(Path(given.layers[0]), given.layers[1:])
    else:
        places = {name: getattr(given, name) for name in ("backend", "dtype", "quantize")}
        engines = iter([(given.model, load(given.model, "none", **places))])
    for title, engine in engines:
        for gamma in GAMMAS:
            exact, ordinary = seconds(engine, gamma, given.repeats or (3 if given.layers else 20))
            print(  # noqa: T201
                f"{title}, gamma {gamma}: {exact * 1e3:.2f} ms exact, "
                f"{ordinary * 1e3:.2f} ms ordinary, {exact / ordinary:.2f}"
            )


if __name__ == "__main__":
    main()
