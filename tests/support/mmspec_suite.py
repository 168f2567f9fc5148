"""MMSpec's own layout around drawings, and the file in which its programs write answers."""

import json
from collections.abc import Iterable
from pathlib import Path
from shutil import copy

from mmspec_bench.suite.rows import AnswerRow
from support.bundled import DRAWINGS

TOPICS = (
    *("general vqa", "text vqa", "image captioning"),
    *("chart understanding", "complex reasoning pro", "multi-turn conversation"),
)
"""The benchmark's topics, in its order."""
SAMPLES = [
    ("mmspec_001", "disc.png", ["What shape is the red object?"], "general vqa"),
    ("mmspec_002", "three-discs.png", ["How many circles are there?"], "general vqa"),
    ("mmspec_003", "disc.png", ["What is in the image?", "What colour is it?"], "chats"),
    ("mmspec_004", "cross-and-square.png", ["What is on the left?"], "general vqa"),
]


def write_benchmark(folder: Path) -> str:
    """Write the questions and images; returns the value of --suite."""
    images = folder / "test/images"
    images.mkdir(parents=True)
    keys = ("id", "image", "turns", "topic")
    lines = [dict(zip(keys, sample, strict=True)) | {"category": "default"} for sample in SAMPLES]
    write_lines(folder / "test/mmspec.jsonl", lines)
    for _, image, _, _ in SAMPLES:
        copy(DRAWINGS / image, images / image)
    return f"mmspec={folder}"


def write_answers(file: Path, rows: Iterable[AnswerRow]) -> None:
    """Write the answers in rows of one method."""
    texts: dict[str, list[str]] = {}
    for row in rows:
        texts.setdefault(row.sample.rpartition("/")[2], []).append("".join(row.pieces).strip())
    write_lines(
        file,
        [
            {"question_id": name, "choices": [{"index": 0, "turns": turns}]}
            for name, turns in texts.items()
        ],
    )


def write_lines(file: Path, lines: Iterable[object]) -> None:
    """Write JSON lines."""
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
