"""How work that takes long shows that it goes on."""

from collections.abc import Callable

Progress = Callable[[str], object]
"""Function that shows what is being done, in a few words."""


class Notice(str):
    """A message that stays on the screen and belongs in a log: work takes minutes, say."""


def silent(_: str) -> None:
    """Show nothing."""
