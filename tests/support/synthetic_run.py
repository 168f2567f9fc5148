"""The folder of a run that is made up, without a model."""

import json
from dataclasses import asdict

from mmspec_bench.suite.rows import PROVENANCE, ROWS, lines
from mmspec_bench.suite.run_folder import SuiteSettings


def provenance(methods, **others):
    values = {
        **asdict(SuiteSettings("offline", tuple(methods))),
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


def write(folder, rows, values):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ROWS).write_text(lines(rows), encoding="utf-8")
    (folder / PROVENANCE).write_text(json.dumps(values), encoding="utf-8")
    return folder
