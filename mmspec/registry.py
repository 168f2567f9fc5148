"""Find backends, captioners and drafters by entry points, importing none before it is asked for."""

import sys
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from mmspec.captions import Captioner
from mmspec.config import model_type
from mmspec.drafting import LETTERS
from mmspec.errors import BackendError, choice
from mmspec.heads.config import KINDS, is_head, read_head_config
from mmspec.seam import Backend, Head, Model

BACKENDS = "mmspec.backends"
CAPTIONERS = "mmspec.captioners"
DRAFTERS = "mmspec.drafters"
"""Kinds of drafters that other packages bring; see docs/extending.md."""

FRAMEWORKS = {"mlx": "mlx", "torch": "torch"}
"""The package whose presence shows that a backend of this project can run."""


def registered(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name."""
    return {point.name: point for point in entry_points(group=group)}


def installed_backends() -> list[str]:
    """Names of the backends whose framework is installed; the preferred one first.

    MLX is preferred on a Mac, PyTorch elsewhere.
    """
    preferred = "mlx" if sys.platform == "darwin" else "torch"
    names = [name for name in registered(BACKENDS) if _has_framework(name)]
    return sorted(names, key=lambda name: (name != preferred, name))


def _has_framework(name: str) -> bool:
    framework = FRAMEWORKS.get(name)
    return framework is None or find_spec(framework) is not None


def load_backend(name: str) -> Backend:
    """Load the backend `name`, or the preferred installed one for 'auto'.

    Raises UsageError for an unknown name, BackendError for one that is not installed.
    """
    known = registered(BACKENDS)
    if name == "auto":
        name = _any_installed()
    if name not in known:
        raise choice("backend", name, ["auto", *sorted(known)])
    if not _has_framework(name):
        raise BackendError(
            f'backend {name} is not installed: run pip install "mmspec[{name}]", or use another'
        )
    backend: Backend = known[name].load()()
    return backend


def _any_installed() -> str:
    names = installed_backends()
    if not names:
        raise BackendError(
            'no backend is installed: run pip install "mmspec[mlx]" on a Mac, '
            'pip install "mmspec[torch]" elsewhere'
        )
    return names[0]


def load_captioner(kind: str, directory: Path) -> Captioner:
    """The captioner for checkpoints whose model_type is `kind`.

    Raises UsageError for a kind that no installed package captions with.
    """
    known = registered(CAPTIONERS)
    if kind not in known:
        raise choice("captioner type", kind, ["llava", *sorted(known)])
    captioner: Captioner = known[kind].load()(directory)
    return captioner


def is_kind(word: str) -> bool:
    """Whether `word` is a kind of head, one that another package brings included."""
    if set(word.upper()) <= LETTERS.keys():
        return False
    return word in KINDS or word in registered(DRAFTERS)


def head_kind(directory: Path) -> str | None:
    """The drafting of the head in a checkpoint directory; None where it holds a whole model."""
    kind = model_type(directory)
    if kind in registered(DRAFTERS):
        return kind
    return read_head_config(directory).kind if is_head(directory) else None


def load_head(backend: Backend, directory: Path, model: Model) -> Head | None:
    """The head in a checkpoint directory, to draft for `model`; None where it holds a whole model.

    A directory belongs to another package where its config's `model_type` is a kind it brings.
    Raises CheckpointError or UsageError for a head that cannot be had.
    """
    known, kind = registered(DRAFTERS), model_type(directory)
    if kind in known:
        brought: Head = known[kind].load()(directory, model)
        return brought
    return backend.load_head(directory, model) if is_head(directory) else None
