"""Plug-ins by entry point: those of other packages, and this project's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points

from mmspec.ground.errors import not_installed

BACKENDS = "mmspec.backends"
CAPTIONERS = "mmspec.captioners"


def registered(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name."""
    return {point.name: point for point in entry_points(group=group)}


@contextmanager
def loading(point: EntryPoint) -> Iterator[None]:
    """Context manager in which a module that a plug-in lacks raises BackendError."""
    try:
        yield
    except ModuleNotFoundError as error:
        own = "train" if point.group == CAPTIONERS else point.name
        extra = own if point.module.startswith("mmspec_") else ""
        raise not_installed(f"{point.name} ({point.group})", error, extra) from error
