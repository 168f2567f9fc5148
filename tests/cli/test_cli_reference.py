"""docs/cli.md says what the commands say."""

from pathlib import Path

from cli_reference import WIDTH, reference


def test_the_page_is_current():
    page = Path(__file__).parents[2] / "docs/cli.md"
    assert page.read_text(encoding="utf-8") == reference(), "run `make docs-cli`"


def test_every_line_fits_the_page():
    assert max(map(len, reference().splitlines())) <= WIDTH
