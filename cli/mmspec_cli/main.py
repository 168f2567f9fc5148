"""The `mmspec` command: a table of commands, each imported only when it runs."""

import io
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from mmspec.ground.entry_points import any_plugin_errors
from mmspec.ground.errors import MmspecError, UsageError, choice
from mmspec.ground.escape import one_line, visible
from mmspec.ground.input_files import is_there
from mmspec_cli.terminal.interrupt import handle_ending
from mmspec_terminal.config_file import defaults, source
from mmspec_terminal.wording import with_flags

COMMANDS = {
    "chat": "Talk about images.",
    "generate": "Answer one question.",
    "serve": "Answer programs that speak OpenAI's API.",
    "check": "Compare speculative decoding with plain decoding, token for token.",
    "models": "List, show, pull and quantize models.",
    "memory": "Show or delete what lookup remembers of conversations.",
    "calibrate": "Measure what rounds cost here, for --gamma auto to start from.",
    "bench": "Measure speed; run the benchmark suite and report on it.",
    "train": "Train heads and drafts for any target, or a Llama to see.",
    "completion": "Print what bash, zsh or fish needs to complete this command.",
    "doctor": "Say what is installed, what is missing and how to get it.",
}
"""Help text of each command by name; the command's module and click object have that name."""

ELSEWHERE = {"bench": "mmspec_bench.commands.group"}
"""Modules of commands in other packages, by the command's name."""

INTERRUPT_STATUS, PIPE_STATUS = 130, 141
"""A shell's statuses for SIGINT and SIGPIPE."""

ERASE_LINE = "\r\x1b[K"

SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}


class LazyGroup(click.Group):
    """A command group that lists its commands without importing them."""

    def list_commands(self, _: click.Context) -> list[str]:
        """The command names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command called `cmd_name`."""
        if cmd_name not in COMMANDS:
            return None
        module = ELSEWHERE.get(cmd_name, f"mmspec_cli.{cmd_name}")
        command: click.Command = getattr(import_module(module), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command named by the first argument; raises UsageError with the nearest name."""
        if args[0] not in COMMANDS and not (args[0].startswith("-") or ctx.resilient_parsing):
            if is_there(Path(args[0])) and Path(args[0]).is_file():
                raise UsageError(f"{args[0]} is a file: mmspec chat {args[0]} talks about it")
            raise choice("command", args[0], COMMANDS)
        return super().resolve_command(ctx, args)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings=SETTINGS)
@click.version_option(package_name="mmspec", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Lossless speculative decoding for multimodal models.

    Start with `mmspec chat IMAGE`.
    """
    name = ctx.invoked_subcommand or ""
    try:
        ctx.default_map = defaults(ctx, cli, name)
    except UsageError:
        if name != "doctor":  # which says it
            raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; every error becomes one line on stderr.

    The status is 2 for a usage error, 130 for an interrupt and 141 for output that nobody reads any
    more; `check` defines others.  An unforeseen error keeps its traceback, and the status is 1.
    """
    _fill_standard_descriptors()
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BytesIO())  # closed: nothing to read
    sys.stderr = sys.stderr or io.StringIO()  # closed: rich would write remarks to stdout
    if not sys.stdout:
        return _fail("standard output is closed: nothing could be shown", MmspecError.exit_code)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Bytes that are no text reach the tokenizer, which refuses them.
            stream.reconfigure(errors="surrogateescape" if stream is sys.stdin else "replace")
    try:
        with handle_ending(), visible_messages(), any_plugin_errors():
            status = cli.main(arguments, prog_name="mmspec", standalone_mode=False)
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.UsageError as error:
        hint = f"(see {error.ctx.command_path} --help)" if error.ctx else ""
        return _fail(f"{error.format_message()} {hint}", error.exit_code)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except MmspecError as error:
        words = sys.argv[1:] if arguments is None else arguments
        return _fail(f"{error}{source(str(error), cli, words)}", error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", INTERRUPT_STATUS)
    except (BrokenPipeError, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != 1:  # click's and rich's for a closed pipe
            raise
        _drop_output()
        return PIPE_STATUS
    except OSError as error:
        if error.filename is None:
            _drop_output()  # it was the output that could not be written
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}", MmspecError.exit_code)
    except Exception as error:  # noqa: BLE001 - a defect keeps its traceback, made safe to show
        click.echo(visible_traceback(error), err=True)
        return 1
    finally:
        if arguments is None:  # the process ends: a further Ctrl-C does so without a traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    return status if isinstance(status, int) else 0


def _fill_standard_descriptors() -> None:
    """Open /dev/null for each of the descriptors 0 to 2 that is closed.

    A file that is opened would take their place: MLX reads none at 0, and what a library writes to
    1 or 2 would end up in it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _fail(message: str, status: int) -> int:
    """Show the error of a command; returns the status."""
    # At a terminal the line may hold what a command was doing.
    start = ERASE_LINE * (sys.stderr.isatty() and os.environ.get("TERM") != "dumb")
    click.echo(f"{start}mmspec: {one_line(with_flags(message))}", err=True)
    return status


def _drop_output() -> None:
    """Discard buffered output: the reader has closed the pipe, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def visible_messages() -> Iterator[None]:
    """Context in which log records and warnings are `visible`: a hub's answer may be in them."""
    factory, format_warning = logging.getLogRecordFactory(), warnings.formatwarning

    def make_record(*arguments: Any, **keywords: Any) -> logging.LogRecord:
        record = factory(*arguments, **keywords)
        record.msg, record.args = visible(record.getMessage()), ()
        if record.exc_info and record.exc_info[1]:
            record.exc_text = visible_traceback(record.exc_info[1])
        return record

    logging.setLogRecordFactory(make_record)
    warnings.formatwarning = lambda *args, **values: visible(format_warning(*args, **values))
    try:
        yield
    finally:
        logging.setLogRecordFactory(factory)
        warnings.formatwarning = format_warning


def visible_traceback(error: BaseException) -> str:
    """The traceback of an error, as Python prints it but for control characters."""
    return visible("".join(traceback.format_exception(error)).rstrip())
