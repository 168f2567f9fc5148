"""Calibrations, reports, runs of the benchmark and of training, and how a process uses them."""

import json
from pathlib import Path

from mmspec.decoding.exact_rows import ExactRows
from mmspec.draft_length.calibration_file import CalibrationFile
from mmspec.exactness.finding import Finding, FindingFile
from mmspec_bench.full_report.report_file import ReportFile
from mmspec_bench.report.merge import merge
from mmspec_bench.report.write import sections
from mmspec_bench.suite.metrics import summarise
from mmspec_train.run.run_manifest import check_manifest
from mmspec_train.teacher.conversation_file import ConversationFile
from support import synthetic_run
from support.damage.subject import picture
from support.scripted_clock import FLAT

KEY = {"machine": "x", "backend": {"name": "torch"}}


def make_measured(folder: Path) -> None:
    """A calibration, a finding and a report."""
    CalibrationFile(folder / "calibration.json", KEY).write(FLAT.calibration())
    FindingFile(folder / "finding.json", KEY).write(Finding(1.02, True, ExactRows(8, 64)))
    report = ReportFile(folder / "report.json", KEY, {})
    report.start("start torch")
    report.end("start torch", {"ok": True, "result": {"token_seconds": 0.1}, "seconds": 1.0})


def use_measured(file: Path, _: str) -> None:
    """Read all three, and use what they hold."""
    calibration, _ = CalibrationFile(file.parent / "calibration.json", KEY).read()
    for context in (0, 100, 10**6):
        calibration.round_costs(1, context)
        calibration.tree_costs(8, 1, context)
    finding = FindingFile(file.parent / "finding.json", KEY).read()
    if finding:
        finding.line()
        if finding.rows:
            list(finding.rows.tiles(100))
    report = ReportFile(file.parent / "report.json", KEY, {})
    report.resume()
    report.is_over("start torch")


METHODS = ("none", "M", "MT", "adaptive:MT", "draft")


def make_run(folder: Path) -> None:
    """A run of few rows."""
    rows = list(synthetic_run.rows_of(1, METHODS, ("chart", "spot")))
    synthetic_run.write(folder, rows, synthetic_run.provenance(METHODS))


def use_run(file: Path, _: str) -> None:
    """Report on the run."""
    run = merge([file.parent])
    sections(run, [summarise(run.of(name), run.plain) for name in run.decoding], [])


TURNS = [{"from": "human", "value": "<image>\nwhat?"}, {"from": "gpt", "value": "a cat"}]


def make_training(folder: Path) -> None:
    """A run's options and conversations to train on."""
    (folder / "run.json").write_text(json.dumps({"seed": 1, "steps": {"a": 2}}))
    picture().save(folder / "a.png")
    entries = [{"image": "a.png", "conversations": TURNS} for _ in range(40)]
    (folder / "conversations.json").write_text(json.dumps(entries))


def use_training(file: Path, _: str) -> None:
    """Compare the options, index the conversations and read each."""
    check_manifest(file.parent / "run.json", {"seed": 1, "steps": {"a": 2}}, "begin anew")
    conversations = ConversationFile(file.parent / "conversations.json", file.parent)
    conversations.check()
    for place in conversations.places(held_out=True):
        conversations.read(place)


def make_teacher(folder: Path) -> None:
    """A training state, and records of a teacher's answers."""
    import torch

    from mmspec_torch.tensor_files import save_state

    save_state(folder / "state.pt", {"step": 3, "module": {"weight": torch.ones(4, 4)}})
    line = [0, [[1, -1, 5], [6]], [[7, 8], [9]], [1, 0], 0, 4, 16]
    (folder / "train.jsonl").write_text(
        "".join(json.dumps([n, *line[1:]]) + "\n" for n in range(5))
    )


def use_teacher(file: Path, _: str) -> None:
    """Read both."""
    from mmspec_torch.tensor_files import read_state
    from mmspec_train.teacher.cache import TeacherCache

    read_state(file.parent / "state.pt")
    TeacherCache(file.parent, "train", 8).records()
