"""Reads a chat's questions from a terminal or a pipe."""

import sys
from collections.abc import Callable, Iterator

import click

BLOCK = '"""'

Read = Callable[[str], str]
"""Function that shows a prompt and returns one line; raises EOFError or KeyboardInterrupt."""


def is_interactive() -> bool:
    """True if both stdin and stdout are terminals."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def read_pipe(_prompt: str) -> str:
    """The next line of stdin; Ctrl-C ends the command, as in any other pipe."""
    try:
        line = sys.stdin.readline()
    except KeyboardInterrupt as error:
        raise click.Abort from error
    if not line:
        raise EOFError
    return line.removesuffix("\n")


def questions(read: Read, prompt: Callable[[], str]) -> Iterator[str]:
    """Yield each question that is entered: a line, or a block between two triple quotes.

    Ctrl-C drops the line or block being entered. prompt: returns what to show before the next one.
    """
    while True:
        try:
            line = read(prompt())
            question = _block(line, read) if line.lstrip().startswith(BLOCK) else line
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        yield question


def _block(first: str, read: Read) -> str:
    """Read up to the closing quotes, or to the end of the input."""
    text = first.lstrip().removeprefix(BLOCK)
    while not text.rstrip().endswith(BLOCK):
        try:
            text += "\n" + read("... ")
        except EOFError:
            return text
    return text.rstrip().removesuffix(BLOCK).strip("\n")
