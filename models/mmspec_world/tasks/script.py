"""The output of a task: what to draw, ask and answer."""

from dataclasses import dataclass

from mmspec_world.answers.descriptions import Drawing
from mmspec_world.facts import Turn


@dataclass(frozen=True, slots=True)
class Script:
    """Drawings and turns; `keys` are the keys of all contents, all in the same split."""

    drawings: tuple[Drawing, ...]
    turns: tuple[Turn, ...]
    keys: tuple[str, ...]
