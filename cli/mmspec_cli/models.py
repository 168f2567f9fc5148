"""`mmspec models`: the models that have a card, and what is on this machine."""

from pathlib import Path
from typing import Any

import click

from mmspec.cards import Card, card, load_cards, present
from mmspec.errors import choice
from mmspec.hub import pull, resolve
from mmspec.registry import BACKENDS, installed_backends, load_backend, registered
from mmspec_cli.options import BACKEND, JSON, PLAIN
from mmspec_cli.render import Screen


@click.group()
def models() -> None:
    """List, show, pull and quantize models."""


@models.command("list")
@BACKEND
@JSON
@PLAIN
def list_models(backend: str, as_json: bool, plain: bool) -> None:
    """List every model that has a card, and whether it is on this machine."""
    screen = Screen(plain=plain)
    described = [describe(each, reader(backend)) for each in load_cards().values()]
    if as_json:
        screen.json(described)
        return
    columns = ["name", "kind", "for", "here", "description"]
    screen.table(columns, [_row(each) for each in described])


def _row(described: dict[str, Any]) -> list[str]:
    here = "yes" if described["present"] else "no"
    targets = ", ".join(described["for"])
    return [described["name"], described["kind"], targets, here, described["description"]]


@models.command()
@click.argument("name")
@BACKEND
@JSON
@PLAIN
def show(name: str, backend: str, as_json: bool, plain: bool) -> None:
    """Show one model's card."""
    screen = Screen(plain=plain)
    described = describe(card(name), reader(backend))
    if as_json:
        screen.json(described)
    else:
        screen.table(["", ""], [(key, _shown(value)) for key, value in described.items()])


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        value = [f"{key}: {each}" for key, each in value.items()]
    return (", ".join(value) if isinstance(value, list) else str(value)) or "-"


@models.command("pull")
@click.argument("name", metavar="NAME|REPO")
@click.option("--revision", help="Branch, tag or commit. Default: the card's.")
@BACKEND
@PLAIN
def pull_model(name: str, revision: str | None, backend: str, plain: bool) -> None:
    """Download a model to this machine, in the format of the backend that will run it.

    A target's draft is another model: its card names it.
    """
    screen = Screen(plain=plain)
    directory = pull(name, reader(backend), revision)
    screen.say(str(directory))
    found = load_cards().get(name)
    if found and found.pair and not present(load_cards()[found.pair], reader(backend)):
        screen.note(f"its draft: mmspec models pull {found.pair}")


@models.command()
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST", type=click.Path(path_type=Path))
@click.option("--bits", type=int, default=4, show_default=True)
@click.option("--group-size", type=int, default=64, show_default=True)
@click.option("--backend", default="mlx", show_default=True, metavar="mlx")
@PLAIN
def quantize(
    source: str, destination: Path, bits: int, group_size: int, backend: str, plain: bool
) -> None:
    """Write a quantized copy of a model given by name, repository or directory, in MLX's format."""
    screen = Screen(plain=plain)
    screen.progress(f"quantizing {source}")
    directory = resolve(source, backend)
    load_backend(backend).quantize(directory, destination, bits=bits, group_size=group_size)
    screen.say(str(destination))


def reader(backend: str) -> str:
    """The backend whose format is meant: for 'auto' the one that would run here.

    Raises UsageError for an unknown one; it need not be installed.
    """
    known = registered(BACKENDS)
    if backend not in ("auto", *known):
        raise choice("backend", backend, ["auto", *sorted(known)])
    return (installed_backends() or ["torch"])[0] if backend == "auto" else backend


def describe(card: Card, backend: str) -> dict[str, Any]:
    """A card as `models list --json` prints it."""
    found = present(card, backend)
    return {
        "name": card.name,
        "kind": card.kind,
        "for": list(card.serves),
        "description": card.description,
        "note": card.note,
        "licence": card.licence,
        "draft": card.pair,
        "repositories": dict(card.sources),
        "revision": card.revision,
        "bundled": card.bundled is not None,
        "present": str(found) if found else None,
    }
