"""`mmspec calibrate`: what rounds cost on this machine, for `--gamma auto` to start from."""

from typing import Any

import click

from mmspec.bench.calibrate import calibrate as measure
from mmspec.calibration import Calibration
from mmspec.engine import Engine, load
from mmspec_cli.options import BACKEND, DEVICE, DRAFT, DTYPE, JSON, MODEL, PLAIN
from mmspec_cli.render import Screen


@click.command()
@MODEL
@DRAFT
@BACKEND
@DEVICE
@DTYPE
@JSON
@PLAIN
def calibrate(as_json: bool, plain: bool, **where: str) -> None:
    """Measure what target forwards and drafted tokens cost here, and keep it.

    `--gamma auto` starts from it with this machine, backend, type and pair.
    """
    screen = Screen(plain=plain)
    screen.progress("loading")
    engine = load(**where)
    for note in () if as_json else engine.notes:
        screen.note(note)
    screen.progress("measuring")
    engine.calibration = measure(engine)
    kept = _keep(screen, engine)
    if as_json:
        screen.json(_report(engine, kept))
    else:
        _show(screen, engine, kept)


def _keep(screen: Screen, engine: Engine) -> str | None:
    """Write the file; its path, or None after a line on why it could not be written."""
    file = engine.calibration_file
    assert file is not None
    try:
        file.write(engine.calibration)
    except OSError as error:
        screen.note(f"not kept: {error}")
        return None
    return str(file.path)


def _report(engine: Engine, kept: str | None) -> dict[str, Any]:
    found = {"model": engine.target.name, "draft": engine.drafts.name if engine.drafts else None}
    key = dict(engine.calibration_file.key) if engine.calibration_file else {}
    measured = engine.calibration.as_dict()
    return (
        found
        | {"key": key, "target": measured["target"], "draft": measured["draft"]}
        | {"file": kept}
    )


def _show(screen: Screen, engine: Engine, kept: str | None) -> None:
    found, model = engine.calibration, engine.target.model
    screen.table(("target rows", "ms", "steps"), _rows(found, found.target))
    if found.draft:
        screen.table(("draft branches", "ms a token", "steps"), _rows(found, found.draft))
    screen.say(f"{engine.target.name} on {model.device}, {model.dtype}; a step is one target row")
    if kept:
        screen.say(f"kept in {kept}")


def _rows(found: Calibration, seconds: Any) -> list[tuple[str, str, str]]:
    """Each number with its milliseconds and its share of a plain step."""
    step = found.target[1]
    return [(str(n), f"{each * 1e3:.2f}", f"{each / step:.2f}") for n, each in seconds.items()]
