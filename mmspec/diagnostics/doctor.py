"""Reports what is installed, what is missing, and the command that installs it."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from mmspec.checkpoints.cards import Card, load_cards, present
from mmspec.diagnostics.provenance import environment
from mmspec.errors import MmspecError
from mmspec.plugins import BACKENDS, CAPTIONERS, installed_backends, load_backend, registered


@dataclass(frozen=True, slots=True)
class Missing:
    """A missing part of the installation and the command that installs it."""

    what: str
    fix: str
    needed: bool
    """True if no command works without it."""


@dataclass(frozen=True, slots=True)
class Examination:
    """The state of this installation; JSON-serializable."""

    python: str
    platform: str
    cores: int | None
    memory_bytes: int | None
    threads: dict[str, str | None]
    versions: dict[str, str | None]
    backends: dict[str, dict[str, Any]]
    """Each installed backend's description of itself, or its error."""
    captioners: list[str]
    models: list[dict[str, Any]]
    """Every card, with its directory for each backend that can load it here."""
    missing: list[Missing]

    @property
    def exit_code(self) -> int:
        """The command's exit status: 1 if something needed is missing, else 0."""
        return int(any(item.needed for item in self.missing))

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON-serializable object."""
        return asdict(self)


def examine() -> Examination:
    """Examine the installation without changing it and without network access."""
    names = [*registered(BACKENDS)]
    backends = {name: _described(name) for name in installed_backends()}
    models = [_model(card, names) for card in load_cards().values()]
    return Examination(
        **environment(),
        memory_bytes=memory_bytes(),
        backends=backends,
        captioners=sorted(registered(CAPTIONERS)),
        models=models,
        missing=list(_missing(backends, names, models)),
    )


def _described(name: str) -> dict[str, Any]:
    try:
        return load_backend(name).describe()
    except (MmspecError, ImportError, OSError) as error:  # a broken framework is a finding
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}


def _model(card: Card, backends: list[str]) -> dict[str, Any]:
    directories = {name: present(card, name) for name in backends}
    return {
        "name": card.name,
        "kind": card.kind,
        "bundled": bool(card.bundled),
        "found": {name: str(path) for name, path in directories.items() if path},
    }


def memory_bytes() -> int | None:
    """Bytes of physical memory; None if the system does not report it."""
    if not {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(os.sysconf_names):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _missing(
    backends: dict[str, dict[str, Any]], names: list[str], models: list[dict[str, Any]]
) -> Iterator[Missing]:
    working = [name for name, description in backends.items() if "error" not in description]
    for name in names:
        if name not in backends:
            yield Missing(f"backend {name}", f'pip install "mmspec[{name}]"', not working)
    for name, description in backends.items():
        if "error" in description:
            what = f"backend {name}: {description['error']}"
            fix = f'pip install --force-reinstall "mmspec[{name}]"'
            yield Missing(what, fix, not working)
        if "hint" in description:
            what, _, command = description["hint"].rpartition(": ")
            yield Missing(f"{name}: {what}", command, needed=False)
    if not find_spec("transformers"):
        what = "transformers, for BLIP and Florence-2 captions and for training"
        yield Missing(what, 'pip install "mmspec[train]"', needed=False)
    yield from _missing_models(models, working)


def _missing_models(models: list[dict[str, Any]], working: list[str]) -> Iterator[Missing]:
    backend = f" --backend {working[0]}" if working else ""
    for model in models:
        name = model["name"]
        if model["found"]:
            continue
        if model["bundled"]:
            yield Missing(f"the bundled {name}", "pip install --force-reinstall mmspec", True)
        else:
            yield Missing(f"model {name}", f"mmspec models pull {name}{backend}", needed=False)
