"""What exact rows cost one layer in bfloat16 and 4 bits on MLX, which a CPU probes for long.

    python tests/layer_price.py DIRECTORY llama-7b-layer qwen3-8b-layer

writes each layer's random weights to DIRECTORY (1.1 GB, and 0.3 GB in 4 bits), and times forwards
of 1 to 64 rows by blocks, and ordinary ones, in turns. It does not probe whether they are exact.
"""

import sys
from dataclasses import replace
from pathlib import Path

import click

from mmspec.chat.engine import load
from mmspec.decoding.exact_rows import ExactRows
from mmspec_bench.measure.exact_price import exact_prices
from mmspec_bench.prompts import text_prompts
from mmspec_cli.main import main as mmspec
from support.random_checkpoints import write_pair

ROWS = ExactRows(1, 64)
REPEATS = 3


def main(directory: Path, name: str) -> None:
    whole, quantized = (
        write_pair(name, directory)[0],
        directory / f"{name}-4-bits",
    )
    if not quantized.exists():
        mmspec(["models", "quantize", str(whole), str(quantized)])
    for place, kind in ((whole, "bfloat16"), (quantized, "4 bits")):
        engine = load(str(place), "none", backend="mlx", dtype="bfloat16", threads=1)
        known = replace(engine, exactness={"on": ROWS, "off": None})
        for price in exact_prices(known, text_prompts(1)[0], REPEATS):
            click.echo(f"{name}, {kind}, gamma {price.gamma}: {price.exact:.2f} s exact, "
                       f"{price.ordinary:.2f} s ordinary, {price.ratio:.2f}")  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for shape in sys.argv[2:]:
        main(Path(sys.argv[1]), shape)
