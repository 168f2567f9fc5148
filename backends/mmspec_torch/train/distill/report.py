"""A directory that something is trained in: begun, gone on with, finished."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mmspec import errors
from mmspec_torch.train import claim, loop
from mmspec_torch.train.distill.acceptance import Score
from mmspec_torch.train.distill.method import Method
from mmspec_torch.train.distill.supply import Supply
from mmspec_torch.train.team import Team

REPORT = "training.json"
"""Says how what is finished came about."""
UNDER_WAY = "training"
ABOUT = "about.json"
REMEDY = "give another --out, or the options of before"


def check(out: Path, about: dict[str, Any]) -> None:
    """Raise UsageError where `out` holds something finished, or begun with other options."""
    if (out / REPORT).exists():
        raise errors.UsageError(f"{out} holds what was trained before: give another --out")
    claim.check(out / UNDER_WAY / ABOUT, about, REMEDY)


def begun(out: Path, about: dict[str, Any], team: Team) -> Path:
    """Return the folder for what is under way in `out`, claimed for what is to be trained there.

    Raises UsageError as `check` does. Of several processes the first claims it.
    """
    check(out, about)
    if team.is_first():
        claim.claim(out / UNDER_WAY / ABOUT, about, REMEDY)
    return out / UNDER_WAY


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
