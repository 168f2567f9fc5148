"""Chat templates in the styles that checkpoints use: the tables of chat_templates.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Style:
    """A template; `strings` where it takes a message's content as one string."""

    source: str
    strings: bool = False


TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
STYLES = {name: Style(**table) for name, table in TABLES.items()}
