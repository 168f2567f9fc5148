"""Tables of a report's provenance: settings, machines, skipped samples, notes."""

import re
from typing import Any

from mmspec.checkpoints.quantization import computed
from mmspec_bench.report.merge import BenchRun, grouped
from mmspec_bench.suite.run_folder import Settings
from mmspec_bench.table import Table

_NUMBER = re.compile(r"\d+")


def settings(run: BenchRun) -> Table:
    """Settings, models, code and machines."""
    names = [name for name in Settings.__dataclass_fields__ if name != "shard"]
    lines = [
        (name.replace("_", " "), _cell(run.settings[name]))
        for name in (*names, "backend", "device", "dtype")
        if run.settings[name]
    ]
    lines += [(role, _model(model)) for role, model in run.settings["models"].items() if model]
    for provenance in run.provenances:
        lines += _origin(provenance)
    return Table("Settings", ("", ""), lines, text_columns=2)


def title(run: BenchRun) -> str:
    """Models, backend, device and dtype, such as `mini + mini-draft on torch, cpu, float32`."""
    models = run.settings["models"]
    names = " + ".join(model["name"] for model in models.values() if model)
    kind = computed(run.settings["dtype"], models["target"].get("quantize", "none"))
    return f"{names} on {run.settings['backend']}, {run.settings['device']}, {kind}"


def _origin(provenance: dict[str, Any]) -> list[tuple[str, str]]:
    machine = f"{provenance['processor']}, {provenance.get('cores')} cores"
    return [
        ("shard", provenance["shard"]),
        ("command", " ".join(provenance.get("command", []))),
        ("commit", str(provenance.get("commit"))),
        ("date", str(provenance.get("date"))),
        ("machine", f"{machine}, {provenance['platform']}"),
        ("threads", _cell(provenance["threads"])),
        ("versions", _cell(provenance.get("versions", {}))),
    ]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items() if entry) or "not set"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _model(model: dict[str, Any]) -> str:
    quantized = f", {model['quantize']}" if "quantize" in model else ""
    return f"{model['name']} (SHA-256 {model['digest'][:12]}{quantized})"


def skipped_samples(run: BenchRun) -> Table:
    """The broken samples that --skip-bad left out, with reasons."""
    entries = [entry for provenance in run.provenances for entry in provenance["skipped"]]
    lines = [(entry["sample"], entry["reason"]) for entry in entries]
    return Table("Samples left out", ("sample", "reason"), lines, text_columns=2)


def notes(run: BenchRun) -> Table:
    """The notes shown with answers; those that differ only in numbers are counted together."""
    pairs = [(row.method, note) for row in run.rows for note in row.notes]
    groups = grouped(pairs, lambda pair: (pair[0], _NUMBER.sub("#", pair[1])))
    lines = [(*pairs[0], str(len(pairs))) for pairs in groups.values()]
    note = "Notes with other numbers are counted with the first."
    return Table("Notes", ("method", "note", "answers"), lines, note, text_columns=2)
