"""The code of docs/extending.md, installed as a package beside this one."""

import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")


def block(language: str, word: str) -> str:
    """The page's only block of a language that holds `word`."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    [found] = [block for block in blocks if word in block]
    return found


@contextmanager
def installed(site: Path, groups: tuple[str, ...], **modules: str) -> Iterator[None]:
    """Context in which modules and the page's entry points are where pip would have put them."""
    lines = []
    for group in groups:
        points = tomllib.loads(block("toml", group))["project"]["entry-points"][group]
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())]
    information = site / "other-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: other\n")
    (information / "entry_points.txt").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        for name, text in modules.items():
            (site / f"{name}.py").write_text(text)
            patch.delitem(sys.modules, name, raising=False)
        patch.syspath_prepend(site)
        yield
        for name in modules:
            sys.modules.pop(name, None)
