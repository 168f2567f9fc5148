"""`mmspec chat`: a conversation about images at a terminal, or over the lines of a pipe."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import click

from mmspec.ground.errors import MmspecError, UsageError
from mmspec.prompt.conversation import Conversation
from mmspec_cli.chat_commands.files import go_on
from mmspec_cli.chat_commands.table import COMMANDS, is_command, run_command
from mmspec_cli.terminal.absent_models import load_or_pull
from mmspec_cli.terminal.answer import introduction
from mmspec_cli.terminal.conversation_store import ConversationStore, remember
from mmspec_cli.terminal.dialogue import Dialogue
from mmspec_cli.terminal.image_sources import STANDARD_INPUT, open_images, type_at_terminal
from mmspec_terminal.help_pages import EverydayCommand
from mmspec_terminal.options import SYSTEM, is_typed
from mmspec_terminal.setup import Setup, shared_options
from mmspec_terminal.wording import names_word, with_flags

BLOCK = '"""'

ReadLine = Callable[[str], str]
"""Function that shows a prompt and returns one line; raises EOFError or KeyboardInterrupt."""

HINT = "/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves."


@click.command(cls=EverydayCommand)
@click.argument("images", nargs=-1, metavar="[IMAGE]...", type=click.Path(readable=False))
@SYSTEM
@shared_options
@click.option("--resume", is_flag=True, help="Go on with the last conversation, and its model.")
@click.option(
    "--private",
    is_flag=True,
    help="Keep no conversation, no history of questions. Lookup remembers nothing.",
)
@click.option(
    "--preview",
    type=click.Choice(("auto", "off")),
    default="auto",
    help="Show images that are added, small. As pixels in kitty, iTerm2 and terminals with sixels, "
    "as half blocks elsewhere.",
)
def chat(
    setup: Setup,
    images: tuple[str, ...],
    system: str | None,
    thinking: bool | None,
    resume: bool,
    private: bool,
    preview: str,
) -> int:
    """Talk about images and clips; those named go with the next question, - is an image on stdin.

    In a pipe each line is a question; the exit status is 2 if one was refused. Conversations at a
    terminal are kept in ~/.local/state/mmspec, where only their owner can read them; /sessions
    lists them.
    """
    last = next(ConversationStore().files(), None) if resume else None
    if resume and not last:
        raise UsageError("--resume: no conversation was kept yet; start without it")
    if last and (setup.models["model"] == "auto" or not is_typed("model")):
        keeps_draft = is_typed("draft") or setup.models["model"] == last.model
        choices = {"model": last.model} | ({} if keeps_draft else {"draft": "auto"})
        setup = replace(setup, models={**setup.models, **choices})
    screen = setup.screen
    pictures = open_images(images, setup.sampling)
    if STANDARD_INPUT in images:
        type_at_terminal()
    interactive = is_interactive()
    try:
        engine = load_or_pull(partial(setup.load, ready=True), screen, ask=interactive)
    except MmspecError as error:
        if last and setup.models["model"] == last.model and names_word(str(error), last.model):
            raise UsageError(f"--resume: {last.name} had {last.model}: {error}") from error
        raise
    dialogue = Dialogue(
        engine.chat(setup.options, Conversation(system, thinking=thinking)),
        setup,
        is_interactive=interactive,
        store=ConversationStore() if interactive and not private else None,
        shows_previews=interactive and preview == "auto",
    )
    if dialogue.store:
        remember(engine, screen)
    screen.note(*introduction(engine))
    del engine  # else its weights would stay after /model
    if last:
        go_on(dialogue, last.path, last.name, is_kept=True)
        if is_typed("system"):
            dialogue.chat.conversation.system = system
    dialogue.stage(pictures)
    if interactive:
        screen.note(HINT)
    has_failed = converse(dialogue, _line_editor(private) if interactive else read_pipe)
    return MmspecError.exit_code if has_failed and not interactive else 0


def _line_editor(private: bool) -> ReadLine:
    from mmspec_cli.terminal.line_editor import LineEditor

    return LineEditor(list(COMMANDS), private=private)


def converse(dialogue: Dialogue, read: ReadLine) -> bool:
    """Run commands and answer questions until the end of the input or /quit.

    An empty line takes what was offered; after an error the next line is read.  Returns True if a
    line was refused.
    """
    has_failed, screen = False, dialogue.screen
    for entry in questions(read, lambda: dialogue.prompt):
        line = entry.strip()
        try:
            if is_command(line) and not entry.startswith("\n"):  # as a block does
                run_command(dialogue, line)
            elif line:
                dialogue.ask(line)
            else:
                dialogue.accept()
        except KeyboardInterrupt:
            if not dialogue.is_interactive:
                raise
            screen.note("stopped")
        except (MmspecError, OSError) as error:
            has_failed, reason = True, with_flags(str(error), COMMANDS)
            if isinstance(error, OSError):
                if error.filename is None:  # it is the output that cannot be written
                    raise
                reason = f"{error.filename}: {error.strerror}"
            screen.error(reason)
            if screen.as_json:
                screen.json({"error": reason, "line": line})
        if dialogue.is_leaving:
            break
    return has_failed


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


def questions(read: ReadLine, prompt: Callable[[], str]) -> Iterator[str]:
    """Yield each question that is entered: a line, or after a newline a block in triple quotes.

    Ctrl-C drops the line or block being entered. prompt: returns what to show before the next one.
    """
    while True:
        try:
            line = read(prompt())
            is_block = line.lstrip().startswith(BLOCK)
            question = f"\n{_block(line, read)}" if is_block else line
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        yield question


def _block(first_line: str, read: ReadLine) -> str:
    """Read up to the closing quotes, or to the end of the input."""
    text = first_line.lstrip().removeprefix(BLOCK)
    with suppress(EOFError):
        while not text.rstrip().endswith(BLOCK):
            text += "\n" + read("... ")
    return text.rstrip().removesuffix(BLOCK).strip("\n")
