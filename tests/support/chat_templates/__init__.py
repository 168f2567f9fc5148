"""Chat templates in the styles of published models, and snippets of the template language."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class Style:
    """A template, and the roles whose content it takes as one string; the others' are parts."""

    source: str
    strings: frozenset[str] = frozenset()


def read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def read_styles(name: str, strings: tuple[str, ...] = ()) -> dict[str, Style]:
    """The styles of a file; strings: the roles for the tables that name none."""
    return {
        style: Style(table["source"], frozenset(table.get("strings", strings)))
        for style, table in tomllib.loads(read(name)).items()
    }


STYLES = read_styles("text_models.toml", ROLES) | read_styles("image_models.toml")
SNIPPETS = read("snippets.jinja").split("=====\n")
