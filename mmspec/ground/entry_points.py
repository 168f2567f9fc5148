"""Plug-ins by entry point: those of other packages, and this project's own."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import EntryPoint, entry_points
from traceback import walk_tb

from mmspec.ground.errors import DraftError, MmspecError, PluginError, not_installed

OWN_PACKAGES = ("mmspec", "mmspec_mlx", "mmspec_torch", "mmspec_train")
"""Packages of this project, whose faults are no plug-in's."""
BACKENDS = "mmspec.backends"
CAPTIONERS = "mmspec.captioners"


def registered(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name."""
    return {point.name: point for point in entry_points(group=group)}


@contextmanager
def loading(point: EntryPoint) -> Iterator[None]:
    """Context in which a module that a plug-in lacks raises BackendError.

    Whatever else a plug-in of another package raises becomes a PluginError.
    """
    name, is_own = f"{point.name} ({point.group})", is_of_mmspec(point.module)
    with nullcontext() if is_own else blaming(name, point.module):
        try:
            yield
        except ModuleNotFoundError as error:
            own = "train" if point.group == CAPTIONERS else point.name
            raise not_installed(name, error, own if is_own else "") from error


def is_of_mmspec(module: str) -> bool:
    """True for a module of OWN_PACKAGES."""
    return module.partition(".")[0] in OWN_PACKAGES


@contextmanager
def blaming(plugin: str, module: str) -> Iterator[None]:
    """Context in which an exception of a plug-in's code causes a PluginError, with the place.

    plugin: what the error calls it.  module: one of its package's.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, MmspecError) and not isinstance(error, DraftError):
            raise
        place, reason = f"{plugin} failed in {_place(error, module)}", " ".join(str(error).split())
        failure = PluginError(place, f"{type(error).__name__}: {reason}")
        raise failure.with_traceback(error.__traceback__) from error


def _place(error: Exception, module: str) -> str:
    """The innermost line of a package that an error came from; `module` if it called none."""
    package, places = module.partition(".")[0], [module]
    for frame, line in walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__"))
        if name.partition(".")[0] == package:
            places.append(f"{name}, line {line}")
    return places[-1]
