"""Addresses of the documentation."""

SITE = "https://mmspec.github.io/mmspec"
"""The address of the site; `Documentation` in pyproject.toml."""


def more(page: str, place: str = "") -> str:
    """A line that says where a page explains what was shown; place: a heading's anchor."""
    return f"More: {SITE}/{page}/{place and f'#{place}'}"
