from collections.abc import Iterable

from mmspec_cli.terminal.input import questions


def entered(lines: Iterable[str | type[BaseException]]) -> list[str]:
    waiting = iter(lines)

    def read(_prompt: str) -> str:
        line = next(waiting, EOFError)
        if isinstance(line, str):
            return line
        raise line

    return list(questions(read, lambda: "> "))


def test_lines_until_the_end():
    assert entered(["a", "", "b"]) == ["a", "", "b"]


def test_a_block_is_one_question():
    assert entered(['"""one', "", "three", 'four"""', "next"]) == ["one\n\nthree\nfour", "next"]
    assert entered(['"""on one line"""', '"""', "x", '"""']) == ["on one line", "x"]


def test_the_end_of_input_ends_a_block():
    assert entered(['"""one', "two"]) == ["one\ntwo"]


def test_ctrl_c_drops_the_line_or_the_block_and_goes_on():
    assert entered([KeyboardInterrupt, "a", '"""b', KeyboardInterrupt, "c"]) == ["a", "c"]
