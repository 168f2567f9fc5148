"""Makes what libraries log, and unexpected errors, safe to show on a terminal."""

import logging
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mmspec.ground.escape import visible


@contextmanager
def visible_messages() -> Iterator[None]:
    """Context in which log records and warnings are `visible`: a hub's answer may be in them."""
    make, show = logging.getLogRecordFactory(), warnings.formatwarning

    def record(*arguments: Any, **named: Any) -> logging.LogRecord:
        made = make(*arguments, **named)
        made.msg, made.args = visible(made.getMessage()), ()
        if made.exc_info and made.exc_info[1]:
            made.exc_text = visible_traceback(made.exc_info[1])
        return made

    logging.setLogRecordFactory(record)
    warnings.formatwarning = lambda *arguments, **named: visible(show(*arguments, **named))
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)
        warnings.formatwarning = show


def visible_traceback(error: BaseException) -> str:
    """The traceback of an error, as Python prints it but for control characters."""
    return visible("".join(traceback.format_exception(error)).rstrip())
