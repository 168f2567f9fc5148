"""Build step: the README that a package's page shows, with links that lead to the repository."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent


def readme() -> str:
    """The README with absolute addresses in place of files of this version."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    place = f"{project['urls']['Source']}/blob/v{project['version']}/"
    text = (HERE / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\((?!https?://|#)", f"]({place}", text)


setup(long_description=readme(), long_description_content_type="text/markdown")
