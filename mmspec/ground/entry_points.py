"""Plug-ins by entry point: those of other packages, and this project's own."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import EntryPoint, entry_points
from traceback import walk_tb

from mmspec.ground.errors import DraftError, MmspecError, PluginError, missing_package

OWN_PACKAGES = ("mmspec", "mmspec_mlx", "mmspec_torch", "mmspec_train")
"""Packages of this project, whose faults are no plug-in's."""
BACKENDS, CAPTIONERS = "mmspec.backends", "mmspec.captioners"
DRAFTERS, MODEL_FAMILIES = "mmspec.drafters", "mmspec.families"
GROUPS = (BACKENDS, CAPTIONERS, DRAFTERS, MODEL_FAMILIES)
"""Entry-point groups for plug-ins; see docs/extending.md."""


def plugins_of(group: str) -> dict[str, EntryPoint]:
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
            extra = "train" if point.group == CAPTIONERS else point.name
            raise missing_package(name, error, extra if is_own else "") from error


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
        raise _failure(error, plugin, _place(error, module) or module) from error


@contextmanager
def blaming_plugins() -> Iterator[None]:
    """Context in which an exception that came through another package's plug-in is a PluginError.

    For plug-ins whose parts are called from many places, such as families and captioners.
    """
    try:
        yield
    except MmspecError:
        raise
    except Exception as error:
        for point in (point for group in GROUPS for point in plugins_of(group).values()):
            if not is_of_mmspec(point.module) and (place := _place(error, point.module)):
                raise _failure(error, f"{point.name} ({point.group})", place) from error
        raise


def _failure(error: Exception, plugin: str, place: str) -> PluginError:
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return PluginError(f"{plugin} failed in {place}", reason).with_traceback(error.__traceback__)


def _place(error: Exception, module: str) -> str:
    """The innermost line of a module's package that an error came through; empty without any."""
    package, place = module.partition(".")[0], ""
    for frame, line in walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__"))
        place = f"{name}, line {line}" if name.partition(".")[0] == package else place
    return place
