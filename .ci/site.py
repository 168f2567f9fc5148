"""Hook of mkdocs: adds the pages of the root, and leads other links to the repository."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    **{name: name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")},
}
"""Pages of the root, by file, with their names on the site."""


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the pages of the root to those of docs/."""
    for name, place in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Lead every link to a page of the site, or to the file in the repository."""
    folder = ROOT if page.file.src_uri in PAGES.values() else ROOT / "docs"

    def address(match: re.Match[str]) -> str:
        name, mark, place = match[1].partition("#")
        file = (folder / name).resolve().relative_to(ROOT)
        if file.parts[0] == "docs":
            target = file.relative_to("docs").as_posix()
        else:
            target = PAGES.get(str(file), f"{config['repo_url']}/blob/main/{file.as_posix()}")
        return f"]({target}{mark}{place})"

    return re.sub(r"\]\((?!https?://|#)([^)\s]+)\)", address, markdown)
