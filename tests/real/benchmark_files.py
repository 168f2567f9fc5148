"""Where real data is on this machine; a test that needs some is skipped with a reason without.

MMSPEC_BENCHMARK names a folder with MMSpec's `test` and with `answers/MODEL.jsonl`, the answers
that its programs recorded; MMSPEC_WITHOUT_WEIGHTS names what `without_weights.py` writes.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

ANSWERED = ("llava-1.5-7b", "qwen2.5-vl-7b")
"""The models whose answers were recorded, as their directories are called."""
MODELS = (*ANSWERED, "qwen3-vl-8b")
"""The directories that `without_weights.py` writes."""


def benchmark() -> Path:
    """MMSpec, with recorded answers."""
    return _named("MMSPEC_BENCHMARK", "a folder with MMSpec's `test` and with recorded `answers`")


def directory(model: str) -> Path:
    """A real model's directory without weights."""
    written = "what `python tests/real/without_weights.py DIRECTORY` writes"
    return _named("MMSPEC_WITHOUT_WEIGHTS", written) / model


def answers_file(model: str) -> Path:
    """The recorded answers of a model."""
    return benchmark() / "answers" / f"{model}.jsonl"


def lines(file: Path) -> list[dict[str, Any]]:
    """The objects in JSON lines."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]


def _named(variable: str, what: str) -> Path:
    if path := os.environ.get(variable):
        return Path(path)
    pytest.skip(f"{variable} is not set: it names {what}")
