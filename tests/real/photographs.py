"""What MMSpec's images cost from the file to pixel values: CPU time, memory, tokens.

    python tests/real/photographs.py > FILE.csv

MMSPEC_BENCHMARK and MMSPEC_WITHOUT_WEIGHTS name the data (`benchmark_files.py`). A process reads a
model's images one after another, as a chat does; memory is its peak less that before the first.
"""

import subprocess
import sys
from pathlib import Path
from statistics import median
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmark_files import MODELS, benchmark, directory

from mmspec.checkpoints.config import read_config
from mmspec.prompt.images import open_picture
from mmspec_bench.table import csv_text
from support.opening_process import memory


def cost(model: str) -> dict[str, str | int]:
    """The line of a model: medians, and the worst of all images."""
    vision = read_config(directory(model)).vision
    assert vision
    images = vision.preprocessing(directory(model)).with_limit(None)
    before, seconds, tokens = memory(), dict[str, float](), list[int]()
    for file in sorted((benchmark() / "test/images").iterdir()):
        started = process_time()
        picture = open_picture(file)
        images.pixels(picture.image)
        seconds[f"{file.name} ({picture.shape})"] = process_time() - started
        tokens.append(vision.grid(*images.size(*picture.image.size)).positions)
    worst = max(seconds, key=seconds.__getitem__)
    return {
        "model": model,
        "images": len(tokens),
        "median_cpu_ms": f"{1e3 * median(seconds.values()):.1f}",
        "worst_cpu_ms": f"{1e3 * seconds[worst]:.1f}",
        "worst": worst,
        "peak_mib": (memory() - before) // 2**20,
        "tokens_least": min(tokens),
        "tokens_median": round(median(tokens)),
        "tokens_most": max(tokens),
    }


def main(model: str = "") -> None:
    """Print the table, of a process for each model, or the line of one."""
    if model:
        sys.stdout.write(csv_text([cost(model)]))
        return
    for place, name in enumerate(MODELS):
        command = [sys.executable, __file__, name]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        sys.stdout.write("".join(found.stdout.splitlines(keepends=True)[place > 0 :]))


if __name__ == "__main__":
    main(*sys.argv[1:])
