"""Finds backends, captioners and drafters by entry point; imports only what it loads."""

import sys
from importlib.util import find_spec
from pathlib import Path

from mmspec.chat.captions import Captioner
from mmspec.chat.plugin_head import plugin_head
from mmspec.checkpoints.config import model_type
from mmspec.checkpoints.head_config import KINDS, is_head, read_head_config
from mmspec.decoding.contract import Backend, Head, Model
from mmspec.drafters.views import LETTERS
from mmspec.ground.entry_points import BACKENDS, CAPTIONERS, DRAFTERS, load_errors, plugins_of
from mmspec.ground.errors import BackendError, choice

DEVICES = {"mlx": ("cpu", "gpu"), "torch": ("cpu", "cuda", "mps")}
"""Kinds of devices of each backend of this project, which is called as its framework's package.

This machine may lack some of them.
"""


def installed_backends() -> list[str]:
    """The backends whose framework is installed: MLX first on a Mac, PyTorch elsewhere."""
    first = "mlx" if sys.platform == "darwin" else "torch"
    names = [name for name in plugins_of(BACKENDS) if _has_framework(name)]
    return sorted(names, key=lambda name: (name != first, name))


def _has_framework(name: str) -> bool:
    return name not in DEVICES or find_spec(name) is not None


def require_device(backend: str, device: str) -> None:
    """Raise UsageError for a device that no machine has for a backend of this project."""
    kinds = ["auto", *DEVICES.get(backend, ())]
    if kinds[1:] and str(device).partition(":")[0] not in kinds:
        raise choice(f"{backend} device", device, kinds)


def load_backend(name: str) -> Backend:
    """Load a backend, for 'auto' the preferred one.  Raises UsageError or BackendError."""
    name, plugins = choose_backend(name), plugins_of(BACKENDS)
    if not _has_framework(name):
        raise BackendError(
            f'backend {name} is not installed: run pip install "mmspec[{name}]", or use another'
        )
    with load_errors(plugins[name]):
        backend: Backend = plugins[name].load()()
    return backend


def choose_backend(name: str) -> str:
    """The backend `name`, or the preferred installed one for 'auto'; loads no framework.

    Raises UsageError for an unknown name, BackendError if none is installed.
    """
    backends = plugins_of(BACKENDS)
    if name not in ("auto", *backends):
        raise choice("backend", name, ["auto", *sorted(backends)])
    names = installed_backends() if name == "auto" else [name]
    if not names:
        raise BackendError(
            'no backend is installed: run pip install "mmspec[mlx]" on a Mac, '
            'pip install "mmspec[torch]" elsewhere'
        )
    return names[0]


def load_captioner(kind: str, directory: Path, device: str) -> Captioner:
    """The captioner for the checkpoint in `directory`, whose model_type is `kind`.

    device: a name of PyTorch's; any other is 'auto'.  Raises UsageError for a kind that no
    installed package has a captioner for, BackendError for one that needs a package which is not
    installed.
    """
    plugins = plugins_of(CAPTIONERS)
    if kind not in plugins:
        raise choice("captioner type", kind, ["llava", *sorted(plugins)])
    if device.partition(":")[0] not in DEVICES["torch"]:
        device = "auto"
    with load_errors(plugins[kind]):
        captioner: Captioner = plugins[kind].load()(directory, device)
    return captioner


def is_kind(name: str) -> bool:
    """True if `name` is a kind of head, of this project or of another package."""
    if set(name.upper()) <= LETTERS.keys():
        return False
    return name in KINDS or name in plugins_of(DRAFTERS)


def head_kind(directory: Path) -> str | None:
    """The kind of the head in a checkpoint directory; None if it holds a whole model."""
    kind = model_type(directory)
    if kind in plugins_of(DRAFTERS):
        return kind
    return read_head_config(directory).kind if is_head(directory) else None


def load_head(backend: Backend, kind: str, directory: Path, model: Model) -> Head:
    """Load the head of a kind in a checkpoint directory for `model`.

    Another package loads it if the kind is one of that package's. Raises CheckpointError,
    UsageError or BackendError for a head that cannot be loaded.
    """
    point = plugins_of(DRAFTERS).get(kind)
    if point is None:
        return backend.load_head(directory, model)
    with load_errors(point):
        head: Head = point.load()(directory, model)
    return plugin_head(head, f"the draft {directory}", "a mmspec.Head", point.module)
