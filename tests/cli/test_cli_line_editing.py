import signal
import stat

import pytest
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from mmspec_cli.chat_commands.table import COMMANDS
from mmspec_cli.terminal.line_editor import ChatCompleter, LineEditor, open_history


def completed(line: str) -> list[str]:
    """The whole lines that Tab offers at the end of `line`."""
    offered = ChatCompleter(list(COMMANDS)).get_completions(Document(line), CompleteEvent())
    return [line[: len(line) + found.start_position] + found.text for found in offered]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("/im", ["/image"]),
        ("/zz", []),
        ("/image r", ["/image red.png"]),
        ("/image b", [r"/image blue\ one.png"]),
        (r"/image blue\ o", [r"/image blue\ one.png"]),
        ("/load t", ["/load talk.json"]),
        ("/image f", ["/image folder/"]),
        ("what is ./r", ["what is ./red.png"]),
        ("what is r", []),
    ],
)
def test_tab(here, line, offered):
    (here / "folder").mkdir()
    (here / "talk.json").write_text("{}")
    assert completed(line) == offered


def test_history_is_kept_under_the_state_directory_for_its_owner_alone(monkeypatch, here):
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "state"))
    question = "a question\nof two lines"
    open_history().store_string(question)
    assert list(open_history().load_history_strings()) == [question]
    file = here / "state" / "mmspec" / "history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    file.mkdir()
    open_history().store_string(question)
    assert not list(open_history().load_history_strings())


def test_a_signal_just_after_enter_is_not_lost(monkeypatch):
    enter = Application.exit

    def exit_and_signal(app, **how):
        enter(app, **how)
        if "result" in how:
            signal.raise_signal(signal.SIGHUP)

    monkeypatch.setattr(Application, "exit", exit_and_signal)
    monkeypatch.setattr("mmspec_cli.terminal.line_editor.create_output", lambda: DummyOutput())
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("/stats\r")
        with pytest.raises(SystemExit) as end:
            LineEditor([], private=True)("> ")
    assert end.value.code == 128 + signal.SIGHUP
