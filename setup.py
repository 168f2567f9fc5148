"""Build step: the README that a package's page shows, with links that lead to the repository."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent


def readme() -> str:
    """The README with absolute addresses in place of files of this version."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source, version = project["urls"]["Source"], f"v{project['version']}"
    text = (HERE / "README.md").read_text(encoding="utf-8")
    images = re.sub(r"(!\[[^]]*\]\()(?!https?://)", rf"\1{source}/raw/{version}/", text)
    return re.sub(r"\]\((?!https?://|#)", f"]({source}/blob/{version}/", images)


if __name__ == "__main__":
    setup(long_description=readme(), long_description_content_type="text/markdown")
