"""How long work tells that it goes on."""

from collections.abc import Callable

Progress = Callable[[str], object]
"""Function that shows what is being done, in a few words."""


def silent(_: str) -> None:
    """Show nothing."""
