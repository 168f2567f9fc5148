from pathlib import Path

import pytest

from mmspec_cli.chat_commands import COMMANDS
from mmspec_cli.line_editing import completions, history_file, line_editing


def completed(line: str) -> list[str]:
    """The whole lines that Tab offers at the end of `line`."""
    begin = max(line.rfind(" "), line.rfind("\t")) + 1
    return [line[:begin] + found for found in completions(line, begin, list(COMMANDS))]


@pytest.fixture(autouse=True)
def here(red: Path, blue: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (red.parent / "folder").mkdir()
    (red.parent / "talk.json").write_text("{}")
    monkeypatch.chdir(red.parent)
    monkeypatch.setenv("HOME", str(red.parent))
    return red.parent


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("/im", ["/image", "/images"]),
        ("/stats", ["/stats"]),
        ("/zz", []),
        ("/image r", ["/image red.png"]),
        ("/image b", [r"/image blue\ one.png"]),
        (r"/image blue\ o", [r"/image blue\ one.png"]),
        ("/image t", []),
        ("/load t", ["/load talk.json"]),
        ("/image f", ["/image folder/"]),
        ("/image ~/r", ["/image ~/red.png"]),
        ("what is ./r", ["what is ./red.png"]),
        ("what is r", []),
    ],
)
def test_tab(line, offered):
    assert completed(line) == offered


def test_a_path_can_start_a_line(here):
    assert completed(f"{here}/re") == [f"{here}/red.png"]


def test_history_is_kept_under_the_state_directory(monkeypatch, here):
    readline = pytest.importorskip("readline")
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "state"))
    with line_editing([]):
        readline.add_history("a question")
    assert "a question" in history_file().read_text()
    assert history_file() == here / "state" / "mmspec" / "history"


def test_a_history_that_cannot_be_written_is_left_alone(monkeypatch, here):
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "red.png"))
    with line_editing([]):
        pass
