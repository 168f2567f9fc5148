"""`mmspec calibrate`: what rounds cost on this machine, for `--gamma auto` to start from."""

from collections.abc import Mapping
from typing import Any

import click

from mmspec.bench.calibrate import calibrate as measure
from mmspec.calibration import Calibration, CalibrationFile, calibration_file
from mmspec.engine import Engine, load
from mmspec.quantization import computed
from mmspec_cli.options import JSON, LOADING, PLAIN
from mmspec_cli.render import Screen


@click.command()
@LOADING
@JSON
@PLAIN
def calibrate(as_json: bool, plain: bool, **where: Any) -> int:
    """Measure what target forwards and drafted tokens cost here, and keep it.

    `--gamma auto` starts from it with this machine, backend, type and pair. Exits with 1 where
    nothing could be kept.
    """
    screen = Screen(plain=plain)
    screen.progress("loading")
    engine = load(**where)
    for note in () if as_json else engine.notes:
        screen.note(note)
    screen.progress("measuring")
    found, file = measure(engine), calibration_file(engine.backend, engine.target, engine.drafts)
    kept = _kept(screen, file, found)
    if as_json:
        screen.json(_report(engine, found, file) | {"file": str(file.path) if kept else None})
    else:
        _show(screen, engine, found)
    if kept and not as_json:
        screen.say(f"kept in {file.path}")
    return 0 if kept else 1


def _kept(screen: Screen, file: CalibrationFile, found: Calibration) -> bool:
    """Write the file, or a line on why that cannot be."""
    if not found.is_plausible:
        screen.note(
            "not kept: rows took less than a single one, so the machine was busy: run again"
        )
        return False
    try:
        file.write(found)
    except OSError as error:
        screen.note(f"not kept: {error}")
        return False
    return True


def _report(engine: Engine, found: Calibration, file: CalibrationFile) -> dict[str, Any]:
    names = {"model": engine.target.name, "draft": engine.drafts.name if engine.drafts else None}
    return names | {"key": dict(file.key), "target": found.target, "draft": found.draft}


def _show(screen: Screen, engine: Engine, found: Calibration) -> None:
    model, step = engine.target.model, found.target[1]
    screen.table(("target rows", "ms", "steps"), _rows(found.target, step))
    if found.draft:
        screen.table(("draft branches", "ms a token", "steps"), _rows(found.draft, step))
    kind = computed(model.dtype, model.quantize)
    screen.say(f"{engine.target.name} on {model.device}, {kind}; a step is one target row")


def _rows(seconds: Mapping[int, float], step: float) -> list[tuple[str, str, str]]:
    return [(str(n), f"{each * 1e3:.2f}", f"{each / step:.2f}") for n, each in seconds.items()]
