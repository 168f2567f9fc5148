"""Tables of where a report's numbers come from: what was run, on what, and what was left out."""

import re
from collections.abc import Sequence
from typing import Any

from mmspec.bench.report.merge import Run
from mmspec.bench.report.table import Table
from mmspec.quantization import computed

NUMBER = re.compile(r"\d+")
SHOWN = (
    *("suite", "tasks", "methods", "gamma", "max_new_tokens", "limit", "turns", "seed"),
    *("captioner", "backend", "device", "dtype"),
)


def settings(run: Run) -> Table:
    """What was asked for, of which models, with which code and where."""
    told = run.told[0]
    lines = [(name.replace("_", " "), _shown(told[name])) for name in SHOWN if told[name]]
    lines += [(role, _model(model)) for role, model in told["models"].items() if model]
    for each in run.told:
        lines += _made(each)
    return Table("Settings", ("", ""), lines, words=2)


def title(run: Run) -> str:
    """Such as `mini + mini-draft on torch, cpu, float32`."""
    told = run.told[0]
    names = " + ".join(model["name"] for model in told["models"].values() if model)
    kind = computed(told["dtype"], told["models"]["target"].get("quantize", "none"))
    return f"{names} on {told['backend']}, {told['device']}, {kind}"


def _made(told: dict[str, Any]) -> list[tuple[str, str]]:
    versions = {name: version for name, version in told.get("versions", {}).items() if version}
    return [
        ("shard", told["shard"]),
        ("command", _shown(told.get("command", []), " ")),
        ("commit", str(told.get("commit"))),
        ("date", str(told.get("date"))),
        ("machine", f"{told['processor']}, {told.get('cores')} cores, {told['platform']}"),
        ("threads", _shown(told["threads"])),
        ("versions", _shown(versions)),
    ]


def _shown(value: Any, between: str = ", ") -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items() if each) or "not set"
    return between.join(map(str, value)) if isinstance(value, list) else str(value)


def _model(model: dict[str, Any]) -> str:
    quantized = f", {model['quantize']}" if "quantize" in model else ""
    return f"{model['name']} (SHA-256 {model['digest'][:12]}{quantized})"


def left_out(run: Run) -> Table | None:
    """Samples that were skipped, and why; None without any."""
    lines = [(each["sample"], each["reason"]) for told in run.told for each in told["skipped"]]
    return Table("Samples left out", ("sample", "reason"), lines, words=2) if lines else None


def remarks(run: Run) -> Table | None:
    """What answers noted, such as branches pooled for want of positions; None without any.

    Notes that differ in numbers alone are one, with the least and the greatest of each.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for row in run.rows:
        for note in row.notes:
            alike.setdefault((row.method, NUMBER.sub("#", note)), []).append(note)
    lines = [(method, _together(notes), str(len(notes))) for (method, _), notes in alike.items()]
    return Table("Notes", ("method", "note", "answers"), lines, words=2) if lines else None


def _together(notes: Sequence[str]) -> str:
    """Notes of the same words as one, its numbers as ranges."""
    columns = zip(*(map(int, NUMBER.findall(note)) for note in notes), strict=True)
    spans = iter([(min(column), max(column)) for column in columns])
    return NUMBER.sub(lambda _: _span(*next(spans)), notes[0])


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"
