"""Write what an installed package tells of itself, so that a tree on PYTHONPATH is found too."""

import sys
import tomllib
from pathlib import Path


def write(project: Path, place: Path) -> None:
    """Write the entry points that `project` declares to a dist-info folder in `place`."""
    told = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = place / f"{told['name']}-{told['version']}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    named = f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n"
    (folder / "METADATA").write_text(named, encoding="utf-8")
    groups = {"console_scripts": told["scripts"], **told["entry-points"]}
    lines = (
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in points.items()), ""])
        for group, points in groups.items()
    )
    (folder / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
