"""Check what a tag publishes, and print the changelog's section of its version.

    python .ci/release.py TAG DIST

DIST: a folder with the wheel and the sdist.  Exits with 1, naming what is wrong.
"""

import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_BYTES = 45_000_000
"""Bytes of a wheel or an sdist."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


def section(changelog: str, version: str) -> str:
    """The text below a version's heading; empty without the heading."""
    section = re.search(
        rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## |\Z)", changelog, re.M | re.S
    )
    return section[1].strip() if section else ""


def problems(tag: str, version: str, changelog: str, files: list[Path]) -> Iterator[str]:
    """One line for each thing that is wrong."""
    if tag != f"v{version}":
        yield f"the tag is {tag}, and pyproject.toml has version {version}: tag v{version}"
    if not section(changelog, version):
        yield f"CHANGELOG.md has no text under ## [{version}]: write what changed"
    names = {f"mmspec-{version}-py3-none-any.whl", f"mmspec-{version}.tar.gz"}
    if {file.name for file in files} != names:
        yield f"there is {', '.join(file.name for file in files) or 'nothing'}: build {names}"
    for file in files:
        if file.stat().st_size > MOST_BYTES:
            yield f"{file.name} has {file.stat().st_size:,} bytes, over {MOST_BYTES:,}"
        if file.suffix == ".whl":
            yield from (f"{file.name}: its page links to {link}" for link in relative_links(file))


def relative_links(wheel: Path) -> list[str]:
    """Links of the package's page that lead nowhere."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        page = str(message_from_bytes(archive.read(name)).get_payload())
    return [link for link in LINK.findall(page) if not link.startswith("https://")]


def main(tag: str, dist: str) -> int:
    """Check, then print the section or what is wrong."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    wrong = list(problems(tag, table["version"], changelog, sorted(Path(dist).iterdir())))
    for line in wrong:
        sys.stderr.write(f"release: {line}\n")
    if not wrong:
        sys.stdout.write(section(changelog, table["version"]) + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
