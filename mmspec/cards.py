"""Model cards: what each model is for, and where each backend finds it."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from mmspec.errors import choice
from mmspec.hubcache import cached, is_whole

Kind = Literal["target", "draft", "captioner"]

PACKAGE = "mmspec_models"


@dataclass(frozen=True)
class Card:
    """A model with a name of its own.

    `serves` names the targets that a draft was made for; `pair` a target's draft. `sources` maps
    a backend to its repository on the hub. A bundled model lies in `bundled` and has no sources.
    """

    name: str
    kind: Kind
    description: str
    licence: str
    note: str = ""
    serves: tuple[str, ...] = ()
    pair: str | None = None
    revision: str = "main"
    sources: dict[str, str] = field(default_factory=dict)
    bundled: Path | None = None

    def repositories(self, backend: str) -> list[str]:
        """Return the hub ids that `backend` can read, its own first."""
        own = [self.sources[backend]] if backend in self.sources else []
        return list(dict.fromkeys([*own, *self.sources.values()]))


def load_cards() -> dict[str, Card]:
    """Return every card by its name, in the order of the names."""
    cards = (_parse(text, name) for name, text in _texts())
    return {card.name: card for card in sorted(cards, key=lambda each: each.name)}


def card(name: str) -> Card:
    """Return the card called `name`; raises UsageError with the nearest name."""
    cards = load_cards()
    if name not in cards:
        raise choice("model", name, cards)
    return cards[name]


def present(card: Card, backend: str) -> Path | None:
    """Return where the card's model lies on this machine, the backend's own format first.

    None where it would have to be pulled, or where a bundled model's weights are not there.
    """
    if card.bundled is not None:
        return card.bundled if is_whole(card.bundled) else None
    found = (cached(repository, card.revision) for repository in card.repositories(backend))
    return next((path for path in found if path is not None), None)


def _texts() -> Iterator[tuple[str, str]]:
    for entry in files(PACKAGE).iterdir():
        if entry.name.endswith(".toml"):
            yield entry.name.removesuffix(".toml"), entry.read_text(encoding="utf-8")


def _parse(text: str, name: str) -> Card:
    table: dict[str, Any] = tomllib.loads(text)
    if table["kind"] not in get_args(Kind):
        raise ValueError(f"{name}.toml: kind is {table['kind']!r}")
    table["serves"] = tuple(table.pop("for", ()))
    table["sources"] = table.pop("source", {})
    if table.pop("bundled", False):
        table["bundled"] = Path(str(files(PACKAGE))) / name
    return Card(name=name, **table)
