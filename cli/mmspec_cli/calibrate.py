"""`mmspec calibrate`: measures round costs on this machine, for `--gamma auto`."""

from dataclasses import asdict
from typing import Any

import click

from mmspec.chat.calibration import CalibrationFile, calibration_file
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.checkpoints.quantization import number_type
from mmspec.decoding.exact_rows import ExactRows
from mmspec.draft_length.calibration_file import Calibration, Curves
from mmspec.ground.errors import UsageError, WriteError
from mmspec.ground.output_files import make_directory
from mmspec_bench.measure.calibrate import ROOM, Measurement
from mmspec_bench.measure.calibrate import calibrate as measure
from mmspec_bench.measure.steadiness import busy_already
from mmspec_terminal.options import EXACT, JSON, LOADING
from mmspec_terminal.render import Screen
from mmspec_terminal.setup import Setup, with_screen


@click.command()
@LOADING
@EXACT
@with_screen(JSON)
def calibrate(screen: Screen, exact: str, **models: Any) -> int:
    """Measure the cost of target forwards and drafted tokens by context, and write it to a file.

    Contexts are 64, 512, 2,048 and 8,192 tokens, as far as the models have positions. `--gamma
    auto` starts from that file on this machine, with this backend, dtype and pair; exact and
    ordinary decoding have a file each. `--exact auto` also finds out whether exact decoding is
    cheap enough to be used from then on. A measurement that other programs disturb ends early, and
    nothing is written. Exits with 1 if nothing is written.
    """
    engine = Setup(screen, models, Options(exact=exact)).load()
    screen.note(*engine.notes)
    positions = engine.target.model.config.text.max_position_embeddings
    if positions <= ROOM:
        raise UsageError(
            f"{engine.target.name} has {positions} positions, and calibrate needs {ROOM + 1} or "
            "more: --gamma auto measures in a chat, --gamma N drafts N tokens a round"
        )
    if engine.target.model.device == "cpu" and (problem := busy_already()):
        screen.note(f"not measured: the machine is busy: {problem}")
        if screen.as_json:
            screen.json({"problem": problem, "file": None})
        return 1
    rows = engine.exact_rows(exact, measure=True)
    file = calibration_file(engine.backend, engine.target, engine.drafts, rows)
    try:  # at once, before minutes are spent
        make_directory(file.path.parent)
    except WriteError as error:
        reason = f"{error}; MMSPEC_CACHE names another folder"
        screen.note(f"what is measured will only be shown: {reason}")
    measurement = measure(engine, screen.progress, exact=exact)
    calibration = measurement.calibration
    is_written = _write(screen, file, measurement)
    report = {
        "model": engine.target.name,
        "draft": engine.drafts and engine.drafts.name,
        **engine.exact_fields(exact),
        "key": file.key,
        **asdict(calibration),
        "steadiness": asdict(measurement.steadiness),
        "problem": measurement.problem,
        "file": str(file.path) if is_written else None,
    }
    screen.report(report, lambda: _show(screen, engine, calibration, rows))
    if is_written and not screen.as_json:
        screen.say(f"written to {file.path}")
    return 0 if is_written else 1


def _write(screen: Screen, file: CalibrationFile, measurement: Measurement) -> bool:
    """Write the file; if that fails, show why and return False."""
    if measurement.problem:
        screen.note(f"not written: the machine was busy: {measurement.problem}")
        return False
    try:
        file.write(measurement.calibration)
    except WriteError as error:
        screen.note(f"not written: {error}")
        return False
    return True


def _show(screen: Screen, engine: Engine, calibration: Calibration, rows: ExactRows | None) -> None:
    model = engine.target.model
    _show_costs(screen, "target rows", calibration.target)
    if calibration.draft:
        _show_costs(screen, "draft branches", calibration.draft)
        _show_costs(screen, "tree level, branches", calibration.level)
    kind = number_type(model.dtype, model.quantize)
    forwards = f"exact, {rows.line()}" if rows else "not exact"
    screen.say(
        f"{engine.target.name} on {model.device}, {kind}; {forwards}: milliseconds by context. "
        "Target rows: tokens verified in one forward. Draft branches: views."
    )


def _show_costs(screen: Screen, title: str, curves: Curves) -> None:
    rows = []
    for number in sorted({number for seconds in curves.values() for number in seconds}):
        times = (seconds.get(number) for seconds in curves.values())
        rows.append((str(number), *("" if time is None else f"{1e3 * time:.2f}" for time in times)))
    screen.table((title, *(f"at {context:,}" for context in curves)), rows)
