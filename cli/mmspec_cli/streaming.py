"""Show an answer while it is made."""

from collections.abc import Generator
from contextlib import closing, suppress
from time import perf_counter

from mmspec.chat import Piece
from mmspec.session import Prefilled
from mmspec_cli.interrupt import Interrupt
from mmspec_cli.render import Screen

Answering = Generator[Prefilled | Piece]


def stream(
    answering: Answering, screen: Screen, interrupt: Interrupt, *, silent: bool = False
) -> float | None:
    """Run an answer to its end, or to the first boundary after Ctrl-C; write its text.

    A second Ctrl-C ends it where it is, and none after that means anything.  Returns the seconds
    to its first piece, None where there was none.
    """
    started = perf_counter()
    first = None
    screen.progress("looking")
    with suppress(KeyboardInterrupt), closing(answering):
        for item in answering:
            if isinstance(item, Prefilled):
                screen.progress(f"reading {item.done} of {item.total} tokens")
            else:
                if first is None:
                    first, item = perf_counter() - started, unspaced(item)
                if not silent:
                    screen.piece(item)
            if interrupt.requested:
                break
        interrupt.settle()
    screen.clear_progress()
    return first


def unspaced(piece: Piece) -> Piece:
    """The first piece without the space that many tokenizers put before a word."""
    if piece.accepted:
        return Piece(piece.accepted.removeprefix(" "), piece.own)
    return Piece("", piece.own.removeprefix(" "))
