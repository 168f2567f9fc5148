"""`mmspec calibrate`: measures round costs on this machine, for `--gamma auto`."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from mmspec.chat.calibration import calibration_file
from mmspec.chat.engine import Engine
from mmspec.checkpoints.quantization import computed
from mmspec.draft_length.calibration_file import Calibration, CalibrationFile
from mmspec_bench.commands.output import loaded
from mmspec_bench.measure.costs import calibrate as measure
from mmspec_cli.options import JSON, LOADING, PLAIN
from mmspec_cli.terminal.render import Screen


@click.command()
@LOADING
@JSON
@PLAIN
def calibrate(as_json: bool, plain: bool, **where: Any) -> int:
    """Measure the cost of target forwards and drafted tokens, and write it to a file.

    `--gamma auto` starts from that file on this machine, with this backend, dtype and pair. Exits
    with 1 if it cannot be written.
    """
    screen = Screen(plain=plain)
    engine = loaded(screen, where)
    screen.progress("measuring")
    calibration, file = measure(engine), calibration_file(engine)
    written = _write(screen, file, calibration)
    if as_json:
        names = {"model": engine.target.name, "draft": engine.drafts and engine.drafts.name}
        path = {"file": str(file.path) if written else None}
        screen.json(names | {"key": file.key} | asdict(calibration) | path)
    else:
        _show(screen, engine, calibration)
        if written:
            screen.say(f"written to {file.path}")
    return 0 if written else 1


def _write(screen: Screen, file: CalibrationFile, calibration: Calibration) -> bool:
    """Write the file; if that fails, show why and return False."""
    if not calibration.is_plausible:
        screen.note(
            "not written: rows took less than a single one, so the machine was busy: run again"
        )
        return False
    try:
        file.write(calibration)
    except OSError as error:
        screen.note(f"not written: {error}")
        return False
    return True


def _show(screen: Screen, engine: Engine, calibration: Calibration) -> None:
    model, step = engine.target.model, calibration.target[1]
    screen.table(("target rows", "ms", "steps"), _rows(calibration.target, step))
    if calibration.draft:
        screen.table(("draft branches", "ms a token", "steps"), _rows(calibration.draft, step))
    kind = computed(model.dtype, model.quantize)
    screen.say(f"{engine.target.name} on {model.device}, {kind}; a step is one target row")


def _rows(costs: Mapping[int, float], step: float) -> list[tuple[str, str, str]]:
    return [(str(n), f"{s * 1e3:.2f}", f"{s / step:.2f}") for n, s in costs.items()]
