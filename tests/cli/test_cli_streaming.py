"""What is shown of an answer's first piece."""

import pytest

from mmspec.chat.chat import Piece
from mmspec_cli.terminal.answer import unspaced


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
    assert unspaced(Piece(accepted, own)).text == shown
