"""Write the metadata of an installed package, so that a tree on PYTHONPATH has entry points too."""

import sys
import tomllib
from pathlib import Path


def write(project: Path, place: Path) -> None:
    """Write the entry points that `project` declares to a dist-info folder in `place`."""
    table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = place / f"{table['name']}-{table['version']}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {table['name']}\nVersion: {table['version']}\n"
    (folder / "METADATA").write_text(metadata, encoding="utf-8")
    groups = {"console_scripts": table["scripts"], **table["entry-points"]}
    lines = (
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in points.items()), ""])
        for group, points in groups.items()
    )
    (folder / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
