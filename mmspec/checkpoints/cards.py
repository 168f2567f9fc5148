"""Model cards: the purpose of each model and its source for each backend."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from mmspec.checkpoints.config import ModelConfig, config_of
from mmspec.checkpoints.hub_cache import cached_snapshot, is_whole, latest_snapshot
from mmspec.ground.errors import CheckpointError
from mmspec.ground.json_reader import read_value

Kind = Literal["target", "draft", "captioner"]

PACKAGE = "mmspec_models"
MAIN = "main"
"""The hub's name for a repository's latest commit."""


@dataclass(frozen=True)
class Card:
    """A named model.

    `serves` names the targets that a model drafts for, `pair` the draft of a target. `sources`
    maps a backend to the model's repository on the hub. A bundled model has a `bundled` directory
    and no sources.
    """

    name: str
    kind: Kind
    description: str
    licence: str
    note: str = ""
    serves: tuple[str, ...] = ()
    pair: str | None = None
    sources: dict[str, str] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)
    """The commits of the sources by backend; a source without one is read at MAIN."""
    config: dict[str, Any] = field(default_factory=dict)
    """The keys of config.json on which the sizes in memory depend; empty if they are not said."""
    bundled: Path | None = None

    @property
    def uses(self) -> set[str]:
        """The card's kind, and "draft" for a target that also drafts for larger ones."""
        return {self.kind, "draft"} if self.serves else {self.kind}

    @property
    def model(self) -> ModelConfig | None:
        """The model's sizes; None if the card does not say them."""
        return config_of(self.config, Path(f"{self.name}.toml")) if self.config else None

    def repositories(self, backend: str) -> list[str]:
        """The hub ids of the model that `backend` can read, its own format first."""
        first = [self.sources[backend]] if backend in self.sources else []
        return list(dict.fromkeys([*first, *self.sources.values()]))


@cache
def load_cards() -> Mapping[str, Card]:
    """All cards by name, in alphabetical order."""
    tables = (entry for entry in files(PACKAGE).iterdir() if entry.name.endswith(".toml"))
    cards = (_parse(file.read_text("utf-8"), file.name.removesuffix(".toml")) for file in tables)
    return {card.name: card for card in sorted(cards, key=lambda card: card.name)}


def bundled_note(name: str) -> str:
    """What the bundled model of a name knows; empty for another model."""
    card = load_cards().get(name)
    return card.note if card and card.bundled else ""


def pair_of(name: str) -> str | None:
    """The draft that a target's card names; `name` is the card's name or one of its hub ids."""
    cards = load_cards()
    sources = (card for card in cards.values() if name in card.sources.values())
    card = cards.get(name) or next(sources, None)
    return card.pair if card else None


def present(card: Card, backend: str) -> Path | None:
    """The directory of the card's model on this machine, in the backend's own format if possible.

    None if the model must be pulled first, or if a bundled model's weights are missing.
    """
    if card.bundled is not None:
        return card.bundled if is_whole(card.bundled) else None
    return next(filter(None, map(snapshot_of, card.repositories(backend))), None)


def revision_of(repository: str) -> str:
    """The commit of a repository that one of the cards pins, else MAIN."""
    commits = (
        card.revisions[backend]
        for card in load_cards().values()
        for backend, source in card.sources.items()
        if source == repository and backend in card.revisions
    )
    return next(commits, MAIN)


def snapshot_of(repository: str) -> Path | None:
    """A whole copy on this machine: at the pinned commit, else at MAIN, as other programs fetch it,
    else at the revision that was pulled last.
    """
    copies = (cached_snapshot(repository, name) for name in (revision_of(repository), MAIN))
    return next(filter(None, copies), None) or latest_snapshot(repository)


_FIELDS = {"for": "serves", "source": "sources", "revision": "revisions"}
"""Fields of a card by their keys in the file, where they differ."""


def _parse(text: str, name: str) -> Card:
    try:
        table = {_FIELDS.get(key, key): value for key, value in tomllib.loads(text).items()}
        bundled = read_value(bool, table.pop("bundled", False))
        card = read_value(Card, table | {"name": name})
    except ValueError as error:
        raise CheckpointError(f"{name}.toml is no model card: {error}") from error
    return replace(card, bundled=Path(str(files(PACKAGE))) / name) if bundled else card
