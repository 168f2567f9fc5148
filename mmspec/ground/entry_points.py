"""Plug-ins by entry point: those of other packages, and this project's own."""

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType

from mmspec.ground.errors import DraftError, MmspecError, PluginError, missing_package

OWN_PACKAGES = ("mmspec", "mmspec_mlx", "mmspec_torch", "mmspec_train")
"""Packages of this project, whose faults are no plug-in's."""
BACKENDS, CAPTIONERS = "mmspec.backends", "mmspec.captioners"
DRAFTERS, MODEL_FAMILIES = "mmspec.drafters", "mmspec.families"
GROUPS = (BACKENDS, CAPTIONERS, DRAFTERS, MODEL_FAMILIES)
"""Entry-point groups for plug-ins; see docs/extending.md."""


def plugins_of(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name; a package may have come since the last call."""
    folders = (Path(place).absolute() for place in sys.path)
    return _plugins_in(group, tuple((folder, _change(folder)) for folder in folders))


def _change(folder: Path) -> int:
    """The time of a folder's last change in nanoseconds; 0 if it cannot be read."""
    with suppress(OSError):
        return folder.stat().st_mtime_ns
    return 0


@lru_cache(maxsize=64)
def _plugins_in(group: str, _folders: tuple[tuple[Path, int], ...]) -> Mapping[str, EntryPoint]:
    """Those of the packages in folders, as they were changed last, whose files are read once."""
    return {point.name: point for point in entry_points(group=group)}


@contextmanager
def load_errors(point: EntryPoint) -> Iterator[None]:
    """Context in which a module that a plug-in lacks raises BackendError.

    Whatever else a plug-in of another package raises becomes a PluginError.
    """
    name, is_own = f"{point.name} ({point.group})", is_of_mmspec(point.module)
    with nullcontext() if is_own else plugin_errors(name, point.module):
        try:
            yield
        except ModuleNotFoundError as error:
            extra = "train" if point.group == CAPTIONERS else point.name
            raise missing_package(name, error, extra if is_own else "") from error


def is_of_mmspec(module: str) -> bool:
    """True for a module of OWN_PACKAGES."""
    return module.partition(".")[0] in OWN_PACKAGES


@contextmanager
def plugin_errors(plugin: str, module: str) -> Iterator[None]:
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
def any_plugin_errors() -> Iterator[None]:
    """Context in which an exception that came through another package's plug-in is a PluginError.

    For plug-ins whose parts are called from many places, such as families and captioners. Errors of
    the caller's own functions, such as one that shows progress, stay as they are.
    """
    try:
        yield
    except MmspecError:
        raise
    except Exception as error:
        callers = _callers()
        for point in (point for group in GROUPS for point in plugins_of(group).values()):
            if not is_of_mmspec(point.module) and (place := _place(error, point.module, callers)):
                raise _failure(error, f"{point.name} ({point.group})", place) from error
        raise


def _failure(error: Exception, plugin: str, place: str) -> PluginError:
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return PluginError(f"{plugin} failed in {place}", reason).with_traceback(error.__traceback__)


def _callers() -> set[str]:
    """The packages, but for this project's and Python's own, that called what is running."""
    packages = {_module(frame).partition(".")[0] for frame, _ in walk_stack(None)}
    return packages.difference(OWN_PACKAGES, sys.stdlib_module_names)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _place(error: Exception, module: str, callers: Collection[str] = ()) -> str:
    """The innermost line of a module's package that an error came through.

    Empty without any, or if the error came from one of `callers`, which the package called.
    """
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        package = _module(frame).partition(".")[0]
        if package in callers:
            place = ""
        elif package == module.partition(".")[0]:
            place = f"{_module(frame)}, line {line}"
    return place
