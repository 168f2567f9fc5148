"""What is shown of an answer that ends early."""

from collections.abc import Iterator

import pytest

from mmspec.chat.answer import Piece
from mmspec_cli.terminal.answer import stream
from mmspec_cli.terminal.interrupt import Interrupt
from mmspec_terminal.render import Screen


def test_an_answer_that_fails_is_shown_to_its_last_letter(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    def answering() -> Iterator[Piece]:
        yield Piece("", "a red st")
        raise SystemExit(143)

    with pytest.raises(SystemExit):
        stream(answering(), Screen(plain=True), Interrupt())
    assert capsys.readouterr().out == "a red st\n"
