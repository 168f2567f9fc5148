"""A run made up from a seed: counts and seconds of every method, no model."""

import json
from dataclasses import asdict

import numpy as np

from mmspec_bench.suite.offline import OFFLINE_TASKS
from mmspec_bench.suite.rows import PROVENANCE, ROWS, lines
from mmspec_bench.suite.run_folder import SuiteSettings
from support.suite_row import row, seconds

METHODS = ("M", "M/run", "T", "C", "P", "MT", "MTC", "MTCP", "adaptive:MTC", "adaptive:MTCP")
IMAGES = {"spot": 2, "edit": 2, "pororo": 5, "vist": 5, "video": 4}


def provenance(methods, shard="1/1", **others):
    values = {
        **asdict(SuiteSettings("offline", tuple(methods), shard=shard)),
        "models": {
            "target": {"name": "mini", "digest": "0123456789abcdef" * 4},
            "draft": {"name": "mini-draft", "digest": "fedcba9876543210" * 4},
        },
        "backend": "torch",
        "device": "cpu",
        "dtype": "float32",
        "command": ["mmspec", "bench", "run"],
        "commit": "0123456789ab",
        "date": "2026-01-01T00:00:00+00:00",
        "platform": "Linux",
        "processor": "x86_64",
        "cores": 2,
        "threads": {"OMP_NUM_THREADS": "2"},
        "versions": {"mmspec": "0.1.0", "torch": None},
        "skipped": [],
        "resumed": [],
    }
    return values | others


def answer(task, number, turn, method, position):
    draws = np.random.default_rng([*f"{task}/{number}/{turn}/{method}".encode()])
    images, gamma = IMAGES.get(task, 1), 0 if method == "none" else 5
    accepted = draws.integers(0, gamma, int(draws.integers(5, 30)), endpoint=True).tolist()
    letters = "" if method in ("none", "lookup") else method.removeprefix("adaptive:")
    return row(
        f"{task}/{number}",
        method,
        [(gamma, each, each + 1) for each in accepted],
        [*letters.partition("/")[0]],
        images=images,
        turn=turn,
        position=position,
        seconds=seconds(decode=float(draws.uniform(0.1, 0.3)), vision=0.012 * images),
        identical=None if method == "none" else True,
        notes=["pooled: M would run past the draft's positions"] * (method == "M" and images == 5),
    )


def rows_of(samples, methods, tasks=tuple(OFFLINE_TASKS)):
    for task in tasks:
        turns = 2 if OFFLINE_TASKS[task] else 1
        for number in range(samples):
            for position, method in enumerate(methods):
                for turn in range(turns):
                    yield answer(task, number, turn, method, position)


def write(folder, rows, values):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ROWS).write_text("".join(lines(rows)), encoding="utf-8")
    (folder / PROVENANCE).write_text(json.dumps(values), encoding="utf-8")
    return folder
