"""A run made up from a seed: plausible counts and seconds, no model.

    python tests/support/synthetic_run.py DIR [SAMPLES]

writes one to look at, with every task of the offline suite and each kind of method.
"""

import json
import sys
from pathlib import Path

import numpy as np

from mmspec_bench.suite.offline import OFFLINE_TASKS
from mmspec_bench.suite.rows import PROVENANCE, ROWS, RoundRow, Row, lines

METHODS = ("M", "M/run", "T", "C", "P", "MT", "MTC", "MTCP", "adaptive:MTC", "adaptive:MTCP")
GAMMA = 5
IMAGES = {"spot": 2, "edit": 2, "pororo": 5, "vist": 5, "video": 4}
WORDS = ["the", "a", "red", "square", "left", "of", "<b>two</b>", "it", "is", "|", "three"]
TARGET = [0.0040 + 0.0003 * rows for rows in range(GAMMA + 1)]
DRAFT = [0.00032, 0.00036, 0.00040, 0.00045]


def provenance(methods, shard="1/1", **others):
    values = {
        "suite": "offline",
        "methods": list(methods),
        "gamma": GAMMA,
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "sampling_seed": 0,
        "max_new_tokens": 128,
        "limit": None,
        "turns": None,
        "tasks": [],
        "seed": 0,
        "shard": shard,
        "captioner": "auto",
        "captions": "",
        "exact": "auto",
        "image_size": 64,
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


def chance(method, task, images):
    """That a drafted token is kept."""
    letters = method.removeprefix("adaptive:").partition("/")[0]
    strength = {"M": 0.62, "T": 0.52, "C": 0.57, "P": 0.58, "n": 0.3}
    base = max(strength.get(letter, 0.0) for letter in letters) + 0.015 * (len(letters) - 1)
    lost = 0.5 if method == "M/run" and images == 5 else 0.0
    easy = 0.02 * (list(OFFLINE_TASKS).index(task) % 5 - 2)
    return base - lost + easy + 0.02 * method.startswith("adaptive")


def rounds(draws, keep, tokens, branches):
    """Rounds of an answer whose tokens are easy or hard for every method."""
    step = DRAFT[branches - 1] * (1.8 if branches > 3 else 1.0) if branches else 2e-5
    parts, left = [], len(tokens)
    while left:
        drafted = min(GAMMA, left - 1) if keep else 0
        hard = tokens[len(tokens) - left :]
        accepted = next(
            (i for i in range(drafted) if hard[i] > keep + draws.normal(0, 0.08)), drafted
        )
        seconds = drafted * step * draws.normal(1, 0.03), TARGET[drafted] * draws.normal(1, 0.05)
        draft, verify = (round(s, 7) for s in seconds)
        parts.append(RoundRow(drafted, accepted, accepted + 1, draft, verify, drafted))
        left -= accepted + 1
    return parts


def timed(draws, parts, images, letters):
    draft, verify = (sum(getattr(r, n) for r in parts) for n in ("draft_seconds", "verify_seconds"))
    stages = {
        "vision": 0.012 * images,
        "caption": 0.05 * images * ("C" in letters),
        "prefill": 0.03 + 0.02 * images,
        "draft": draft,
        "verify": verify,
        "decode": (draft + verify) * 1.04,
    }
    before = sum(stages[name] for name in ("vision", "caption", "prefill"))
    stages |= {"first_token": before + 0.006, "total": before + stages["decode"]}
    return {name: round(value * draws.normal(1, 0.01), 7) for name, value in stages.items()}


def answer(task, number, turn, method, position):
    draws = np.random.default_rng([len(task), ord(task[0]), number, turn])
    images, count = IMAGES.get(task, 1), int(draws.integers(20, 110))
    hard, ids = draws.random(count), draws.integers(0, len(WORDS), count).tolist()
    own = np.random.default_rng([*method.encode(), number, turn])
    plain = method == "none"
    host = plain or method == "ngram"
    letters = "" if host else method.removeprefix("adaptive:").partition("/")[0]
    parts = rounds(own, 0.0 if plain else chance(method, task, images), hard, len(letters))
    return Row(
        sample=f"{task}/{number}",
        task=task,
        images=images,
        turn=turn,
        method=method,
        position=position,
        token_ids=ids,
        pieces=[f" {WORDS[each]}" for each in ids],
        prompt_tokens=600 * images,
        finish_reason="stop",
        rounds=parts,
        branches=[f"{letter}36" if letter == "P" else letter for letter in letters],
        seconds=timed(own, parts, images, letters),
        peak_memory_bytes=900 * 2**20,
        identical=None if plain else True,
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


if __name__ == "__main__":
    names = [*METHODS, "ngram", "none"]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    write(Path(sys.argv[1]), rows_of(count, names), provenance(names))
