"""What a tag publishes: its checks, the page of the package, its extras, and the site's address."""

import re
import runpy
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RELEASE = runpy.run_path(str(ROOT / ".ci" / "release.py"))
CHANGES = (
    "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-12-01\n\n- New.\n\n## [1.1.0]\n\n- Old.\n"
)


def wheel(folder, page="[a](https://example.org)"):
    file = folder / "mmspec-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mmspec-1.2.0.dist-info/METADATA", f"Name: mmspec\n\n{page}\n")
    return file


def sdist(folder, size=9):
    file = folder / "mmspec-1.2.0.tar.gz"
    with file.open("wb") as stream:
        stream.truncate(size)
    return file


def problems(files, tag="v1.2.0", changes=CHANGES):
    return list(RELEASE["problems"](tag, "1.2.0", changes, files))


def test_a_release_has_its_tag_its_changes_and_both_files(tmp_path):
    assert problems([wheel(tmp_path), sdist(tmp_path)]) == []
    assert RELEASE["section"](CHANGES, "1.2.0") == "- New."
    assert RELEASE["section"](CHANGES, "1.1.0") == "- Old."


def test_what_is_wrong_with_a_release_is_named(tmp_path):
    both = [wheel(tmp_path), sdist(tmp_path)]
    assert "tag v1.2.0" in problems(both, tag="v1.2")[0]
    for changes in (CHANGES.replace("- New.", ""), CHANGES.replace("[1.2.0]", "[1.2.0a]")):
        assert "no text under ## [1.2.0]" in problems(both, changes=changes)[0]
    assert "there is mmspec-1.2.0.tar.gz: build" in problems(both[1:])[0]
    sdist(tmp_path, RELEASE["MOST_BYTES"] + 1)
    assert "45,000,001 bytes, over 45,000,000" in problems(both)[0]
    sdist(tmp_path)
    wheel(tmp_path, "[a](docs/guide.md) [b](https://example.org) ![c](docs/x.png)")
    assert [line.split()[-1] for line in problems(both)] == ["docs/guide.md", "docs/x.png"]


IMPORTS = {"pillow-heif": "pillow_heif", "array-api-compat": "array_api_compat"}
"""Import names of distributions whose own names are others."""
EXTRAS = [name for name in PROJECT["optional-dependencies"] if name not in ("test", "real")]


@pytest.fixture(scope="module")
def imported():
    """The packages that any module of the product imports."""
    files = (file for root in ("mmspec", "backends", "cli") for file in (ROOT / root).rglob("*.py"))
    texts = (file.read_text(encoding="utf-8") for file in files)
    return {name for text in texts for name in re.findall(r"^\s*(?:import|from) (\w+)", text, re.M)}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_pulls_nothing_that_is_not_used(extra, imported):
    named = [re.split(r"[\[<>= ;]", text)[0] for text in PROJECT["optional-dependencies"][extra]]
    needed = {IMPORTS.get(name, name) for name in named if name != "mmspec"}
    assert needed <= imported
