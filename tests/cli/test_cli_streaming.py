"""What is shown of an answer: its first piece, and all of it if it ends early."""

from collections.abc import Iterator

import pytest

from mmspec.chat.chat import Piece
from mmspec_cli.terminal.answer import stream
from mmspec_cli.terminal.interrupt import Interrupt
from mmspec_cli.terminal.render import Screen


@pytest.mark.parametrize(
    ("accepted", "own", "shown"),
    [
        (" A blue", " square", "A blue square"),
        ("", " A", "A"),
        ("A", " B", "A B"),
        ("", "  two", " two"),
        ("", "", ""),
    ],
)
def test_an_answer_does_not_begin_with_the_space_of_its_first_word(accepted, own, shown):
    assert Piece(accepted, own).unspaced().text == shown


def test_an_answer_that_fails_is_shown_to_its_last_letter(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    def answering() -> Iterator[Piece]:
        yield Piece("", "a red st")
        raise SystemExit(143)

    with pytest.raises(SystemExit):
        stream(answering(), Screen(plain=True), Interrupt())
    assert capsys.readouterr().out == "a red st\n"
