"""Replays recorded answers of real models: tokens per round of drafters that need no hidden states.

MMSPEC_BENCHMARK and MMSPEC_WITHOUT_WEIGHTS name the data (`benchmark_files.py`).
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmark_files import answers_file, benchmark, directory
from benchmark_files import lines as lines_of

from mmspec_bench.report.bench_run import BenchRun, read_run
from mmspec_bench.suite.metrics import Summary
from mmspec_bench.suite.rows import PLAIN
from mmspec_cli.main import main as mmspec
from support.mmspec_suite import TOPICS

METHODS = "lookup,tree8:lookup,tree16:lookup,tree24:lookup"
GAMMA = "7"
"""The most tokens of a path: a tree of eight nodes has one more, else it would be a chain."""
MEMORIES = ("", "other", "topic", "all")
"""Earlier conversations: none, all of other topics, those of the same one, all in their order."""
LONGEST = "1100"
"""More than an answer has: they were cut at 1,024 tokens."""


def replay(model: str, folder: Path, methods: str, *more: str) -> BenchRun:
    """Replay the answers of a model by `methods`."""
    where = ["--suite", f"mmspec={benchmark()}", "--target-answers", str(answers_file(model))]
    models = ["--model", str(directory(model)), "--draft", "none", "--max-new-tokens", LONGEST]
    drafting = ["--methods", f"{PLAIN},{methods}", "--gamma", GAMMA]
    command = ["bench", "run", *where, *models, *drafting]
    if "--memory" in more:  # what lookup remembers is not stored: such a run cannot go on
        rmtree(folder, ignore_errors=True)
    else:
        command.append("--resume")
    assert mmspec([*command, "--out", str(folder), *more]) == 0
    return read_run(folder)


def remembering(memory: str, model: str, folder: Path, methods: str) -> BenchRun:
    """Replay with the memory of earlier conversations; memory: one of MEMORIES."""
    if memory in ("", "all"):
        more = ["--memory"] if memory else []
        return replay(model, folder, methods, *more)
    runs = []
    for topic in TOPICS:
        more = ["--memory"]
        if memory == "other":
            more = ["--draft-text", str(others(model, topic, folder / f"not {topic}.txt"))]
        runs.append(replay(model, folder / topic, methods, *more, "--tasks", topic))
    rows = [row for run in runs for row in run.rows]
    return replace(runs[0], rows=rows, tasks=[*TOPICS])


def others(model: str, topic: str, file: Path) -> Path:
    """Write the conversations of all topics but one to a file."""
    turns = {entry["id"]: entry["turns"] for entry in lines_of(benchmark() / "test/mmspec.jsonl")}
    texts = [
        f"{question}\n{answer}\n\n"
        for entry in lines_of(answers_file(model))
        if entry["topic"] != topic
        for question, answer in zip(
            turns[entry["question_id"]], entry["choices"][0]["turns"], strict=True
        )
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(texts), encoding="utf-8")
    return file


def line(model: str, memory: str, summary: Summary) -> dict[str, str]:
    """The line of a table."""
    figures = {
        "tokens_per_round": summary["block_efficiency"],
        "low": summary["low"],
        "high": summary["high"],
        "nodes_per_round": summary["nodes_per_round"],
    }
    rounded = {name: f"{value:.3f}" for name, value in figures.items()}
    place = {"model": model, "method": summary["method"], "memory": memory}
    counts = {"topic": summary["task"], "answers": str(summary["answers"])}
    return place | counts | rounded | {"same": str(summary["identical"])}


def lines(model: str, folder: Path, methods: str = METHODS) -> Iterator[dict[str, str]]:
    """The lines of a model, by memory, topic and method."""
    for memory in MEMORIES:
        run = remembering(memory, model, folder / f"memory-{memory or 'none'}", methods)
        for summary in run.task_summaries:
            if summary["method"] != PLAIN:
                yield line(model, memory, summary)
