"""Where a chat's lines come from: a prompt, or a pipe."""

import sys
from collections.abc import Callable, Iterator

import click

BLOCK = '"""'

Read = Callable[[str], str]
"""Shows a prompt and returns one line; raises EOFError, or KeyboardInterrupt on Ctrl-C."""


def typed(prompt: str) -> str:
    """Ask at the terminal; on Ctrl-C leave the line standing and start another."""
    try:
        return input(prompt)
    except (KeyboardInterrupt, EOFError):
        sys.stdout.write("\n")
        raise


def piped(_prompt: str) -> str:
    """Take the next line of stdin; Ctrl-C ends the command, as with any other in a pipe."""
    try:
        line = sys.stdin.readline()
    except KeyboardInterrupt as error:
        raise click.Abort from error
    if not line:
        raise EOFError
    return line.removesuffix("\n")


def questions(read: Read, prompt: Callable[[], str]) -> Iterator[str]:
    r'''Yield what is entered until the end: lines, and blocks between two `"""`.

    Ctrl-C drops the line or block being entered.  prompt: what to show before the next one.
    '''
    while True:
        try:
            line = read(prompt())
            entered = _block(line, read) if line.lstrip().startswith(BLOCK) else line
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        yield entered


def _block(first: str, read: Read) -> str:
    """Read on to the closing quotes, or to the end of the input."""
    text = first.lstrip().removeprefix(BLOCK)
    while not text.rstrip().endswith(BLOCK):
        try:
            text += "\n" + read("... ")
        except EOFError:
            return text
    return text.rstrip().removesuffix(BLOCK).strip("\n")
