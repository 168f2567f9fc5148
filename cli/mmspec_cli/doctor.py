"""`mmspec doctor`: what is installed, what is missing and how to get it."""

from contextlib import suppress
from typing import Any, cast

import click

from mmspec.diagnostics.doctor import examine
from mmspec.ground.errors import UsageError
from mmspec_terminal.config_file import config_file, defaults, read_config
from mmspec_terminal.options import JSON
from mmspec_terminal.render import Screen, in_words
from mmspec_terminal.setup import with_screen


@click.command()
@click.option("--full", is_flag=True, help="Show versions, every model and all that is optional.")
@with_screen(JSON)
def doctor(screen: Screen, full: bool) -> int:
    """Say in one screen whether mmspec works here, and what to do next.

    Exit status: 0, or 1 if something needed is missing.
    """
    report = examine()
    if error := _wrong_defaults():
        report["missing"].append({"what": "right defaults", "fix": error, "needed": True})
        report["exit_code"] = 1
    screen.report(report, lambda: (_show if full else _summarize)(screen, report))
    return int(report["exit_code"])


def _wrong_defaults() -> str:
    """The first error in the file of defaults; empty if there is none."""
    root = click.get_current_context().find_root()
    group = cast(click.Group, root.command)
    try:
        for name in group.list_commands(root):
            defaults(root, group, name)
    except UsageError as error:
        return str(error)
    return ""


def _summarize(screen: Screen, report: dict[str, Any]) -> None:
    """The verdict, then a line for each thing that matters."""
    obstacles = [part for part in report["missing"] if part["needed"]]
    optional = len(report["missing"]) - len(obstacles)
    screen.say("mmspec works here." if not obstacles else "mmspec does not work here yet.")
    rows = [("machine", _machine(report))]
    rows += [
        (f"backend {name}", state.get("error") or in_words(state.get("devices") or "works"))
        for name, state in report["backends"].items()
    ]
    names = [model["name"] for model in report["models"] if model["found"]]
    rows += [("models here", ", ".join(names)), ("next", report["advice"])]
    with suppress(UsageError):  # a file that is no TOML is among what is needed
        config = _without_secret(read_config())
        values = ", ".join(f"{key} = {value}" for key, value in config.items()) or "none"
        rows += [("defaults", f"{values} ({config_file()})")]
    rows += [(f"needed: {part['what']}", part["fix"]) for part in obstacles]
    rows += [("optional", f"{optional} more: mmspec doctor --full")] if optional else []
    screen.table(("", ""), rows)


def _without_secret(value: Any, key: str = "") -> Any:
    """The defaults without the API key: people send what doctor prints."""
    if isinstance(value, dict):
        return {name: _without_secret(item, name) for name, item in value.items()}
    return "…" if key.lower().replace("_", "-") == "api-key" else value


def _machine(report: dict[str, Any]) -> str:
    memory = report["memory_bytes"]
    size = "unknown memory" if memory is None else f"{memory / 2**30:.1f} GiB"
    return f"{report['platform']}, {report['cores']} cores, {size}, Python {report['python']}"


def _show(screen: Screen, report: dict[str, Any]) -> None:
    """The whole report, a table for each of its parts."""
    screen.say(_machine(report))
    versions = {name: version or "not installed" for name, version in report["versions"].items()}
    tables = {"": versions}
    tables |= {f"backend {name}": state for name, state in report["backends"].items()}
    tables["exact decoding"] = report["exact"] or {"not measured yet: `mmspec calibrate` does": ""}
    for title, table in tables.items():
        screen.table((title, ""), [(key, in_words(value)) for key, value in table.items()])
    rows = [(card["name"], card["kind"], in_words([*card["found"]])) for card in report["models"]]
    screen.table(("model", "kind", "here on"), rows)
    parts = report["missing"]
    rows = [(part["what"], "yes" if part["needed"] else "no", part["fix"]) for part in parts]
    screen.table(("missing", "needed", "get it with"), rows)
