"""Reports what is installed, what is missing, and the command that installs it."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

from mmspec.chat.calibration import finding_lines
from mmspec.chat.plugins import installed_backends, load_backend
from mmspec.checkpoints.cards import Card, load_cards, present
from mmspec.checkpoints.recommendation import advice, memory_bytes
from mmspec.diagnostics.provenance import environment
from mmspec.ground.entry_points import BACKENDS, CAPTIONERS, plugins_of
from mmspec.ground.errors import MmspecError

OPTIONAL = {
    "transformers": ("BLIP and Florence-2 captions, training", "mmspec[train]"),
    "starlette": ("`mmspec serve`", "mmspec[server]"),
    "pyarrow": ("parquet files of benchmarks", "mmspec[bench]"),
    "pillow_heif": ("photographs of iPhones", "mmspec[heic]"),
    "av": ("clips", "mmspec[video]"),
    "mlx_lm": ("`mmspec bench peers` with it", "mlx-lm"),
}
"""What each optional package is for, and the argument of pip that installs it."""


class Missing(NamedTuple):
    """A missing part of the installation and the command that installs it."""

    what: str
    fix: str
    needed: bool = False
    """True if no command works without it."""


def examine() -> dict[str, Any]:
    """Examine the installation without changing it and without network access.

    Returns a JSON-serializable report: `backends` as they describe themselves, or their errors;
    `models` with their directories by backend; `exact`, a line for each model measured here; what
    is `missing`; and `exit_code`, 1 if something needed is missing.
    """
    names = [*plugins_of(BACKENDS)]
    backends = {name: _describe(name) for name in installed_backends()}
    models = [_model(card, names) for card in load_cards().values()]
    missing = list(_missing(backends, names, models))
    return environment() | {
        "memory_bytes": memory_bytes(),
        "advice": advice((installed_backends() or ["torch"])[0]),
        "backends": backends,
        "captioners": sorted(plugins_of(CAPTIONERS)),
        "models": models,
        "exact": finding_lines(backends),
        "missing": [part._asdict() for part in missing],
        "exit_code": int(any(part.needed for part in missing)),
    }


def _describe(name: str) -> dict[str, Any]:
    try:
        backend = load_backend(name)
        backend.set_threads(None)  # as loading a model does
        return backend.describe()
    except (MmspecError, ImportError, OSError) as error:  # a broken framework is a finding
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}


def _model(card: Card, backends: list[str]) -> dict[str, Any]:
    return {
        "name": card.name,
        "kind": card.kind,
        "bundled": bool(card.bundled),
        "found": {name: str(path) for name in backends if (path := present(card, name))},
    }


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
            yield Missing(what, f'pip install --force-reinstall "mmspec[{name}]"', not working)
        if "hint" in description:
            what, _, command = description["hint"].rpartition(": ")
            yield Missing(f"{name}: {what}", command)
    for package, (purpose, install) in OPTIONAL.items():
        if not find_spec(package):
            yield Missing(f"{package}: {purpose}", f'pip install "{install}"')
    for model in models:
        if model["bundled"] and not model["found"]:
            fix = "pip install --force-reinstall mmspec"
            yield Missing(f"the bundled {model['name']}", fix, True)
