"""Replays recorded answers of real models: tokens per round of drafters that need no hidden states.

    python tests/real/replay.py FOLDER [METHODS]

writes `replay.csv` and both runs into FOLDER; MMSPEC_BENCHMARK and MMSPEC_WITHOUT_WEIGHTS name the
data (`benchmark_files.py`).
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmark_files import ANSWERED, answers_file, benchmark, directory

from mmspec_bench.report.merge import merge
from mmspec_bench.report.write import csv_text
from mmspec_bench.suite.metrics import Summary
from mmspec_bench.suite.rows import PLAIN
from mmspec_cli.main import main as mmspec

METHODS = "lookup,tree8:lookup,tree16:lookup"
LONGEST = "1100"
"""More than an answer has: they were cut at 1,024 tokens."""


def replay(model: str, folder: Path, methods: str, *more: str) -> list[Summary]:
    """Replay the answers of a model by `methods`; returns a summary for each topic and for all."""
    where = ["--suite", f"mmspec={benchmark()}", "--target-answers", str(answers_file(model))]
    models = ["--model", str(directory(model)), "--draft", "none", "--max-new-tokens", LONGEST]
    command = ["bench", "run", *where, *models, "--methods", f"{PLAIN},{methods}"]
    assert mmspec([*command, "--out", str(folder), *more]) == 0
    return [line for line in merge([folder]).task_summaries if line["method"] != PLAIN]


def line(model: str, summary: Summary) -> dict[str, Any]:
    """The line of a table."""
    figures = {
        "tokens_per_round": summary["block_efficiency"],
        "low": summary["low"],
        "high": summary["high"],
        "nodes_per_round": summary["nodes_per_round"],
    }
    rounded = {name: f"{value:.3f}" for name, value in figures.items()}
    place = {"model": model, "method": summary["method"], "topic": summary["task"]}
    return place | {"answers": summary["answers"]} | rounded | {"same": summary["identical"]}


def lines(folder: Path, methods: str) -> Iterator[dict[str, Any]]:
    """The lines of both models."""
    for model in ANSWERED:
        for summary in replay(model, folder / model, methods):
            yield line(model, summary)


def main(folder: str, methods: str = METHODS) -> None:
    """Replay all answers and write the table."""
    text = csv_text([*lines(Path(folder), methods)])
    (Path(folder) / "replay.csv").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
