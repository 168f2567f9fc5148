"""A directory that something is trained in: begun, gone on with, finished."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mmspec import errors
from mmspec_torch.train import loop
from mmspec_torch.train.claim import claim
from mmspec_torch.train.distill.acceptance import Score
from mmspec_torch.train.distill.method import Method
from mmspec_torch.train.distill.supply import Supply

REPORT = "training.json"
"""Says how what is finished came about."""
UNDER_WAY = "training"


def begun(out: Path, about: dict[str, Any]) -> Path:
    """Return the folder for what is under way in `out`, claimed for what is to be trained there.

    Raises UsageError where `out` holds something finished, or begun with other options.
    """
    if (out / REPORT).exists():
        raise errors.UsageError(f"{out} holds what was trained before: give another --out")
    folder = out / UNDER_WAY
    claim(folder / "about.json", about, "give another --out, or the options of before")
    return folder


def finish(out: Path, supply: Supply, method: Method, budget: loop.Budget, score: Score) -> None:
    """Write how what is in `out` came about, for its card, and drop what was under way."""
    said: Mapping[str, Any] = {
        "method": asdict(method),
        "budget": asdict(budget),
        "data": supply.about,
        "held_out": {
            "tokens_per_round": score.tokens_per_round,
            "agreement": score.agreement,
            "acceptance": score.acceptance,
        },
    }
    text = json.dumps(said, indent=2) + "\n"
    (out / REPORT).write_text(text, encoding="utf-8")
    shutil.rmtree(out / UNDER_WAY)
