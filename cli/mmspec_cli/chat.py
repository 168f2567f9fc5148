"""`mmspec chat`: a conversation about images at a terminal, or over the lines of a pipe."""

import click

from mmspec.errors import MmspecError
from mmspec_cli.chat_commands.table import COMMANDS, is_command, run_command
from mmspec_cli.help_pages import GroupedCommand
from mmspec_cli.introduction import introduction
from mmspec_cli.options import Setup, shared_options
from mmspec_cli.terminal.dialogue import Dialogue
from mmspec_cli.terminal.image_arguments import STANDARD_INPUT, open_images, type_at_terminal
from mmspec_cli.terminal.input import Read, is_interactive, questions, read_pipe
from mmspec_cli.terminal.interrupt import orderly_end
from mmspec_cli.terminal.render import Screen

HINT = "/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves."


@click.command(cls=GroupedCommand)
@click.argument("images", nargs=-1, metavar="[IMAGE]...")
@shared_options
def chat(setup: Setup, images: tuple[str, ...]) -> None:
    """Talk about images; IMAGES are attached to the first question, - reads one from stdin.

    If stdin is a pipe, each line is a question.
    """
    screen = Screen(plain=setup.plain, accepted=setup.accepted)
    pictures = open_images(images)
    if STANDARD_INPUT in images:
        type_at_terminal()
    screen.progress("loading")
    engine = setup.load()
    interactive = is_interactive()
    opened = engine.chat(setup.options)
    dialogue = Dialogue(
        opened, screen, interactive=interactive, as_json=setup.as_json, details=setup.details
    )
    for note in introduction(engine):
        screen.note(note)
    dialogue.stage(pictures)
    if interactive:
        screen.note(HINT)
    with orderly_end():
        converse(dialogue, _line_editor() if interactive else read_pipe)


def _line_editor() -> Read:
    from mmspec_cli.terminal.line_editor import LineEditor

    return LineEditor(list(COMMANDS))


def converse(dialogue: Dialogue, read: Read) -> None:
    """Answer lines until the end of the input or /quit; after an error the next line is read."""
    for line in questions(read, lambda: dialogue.prompt):
        try:
            take(dialogue, line.strip())
        except MmspecError as error:
            dialogue.screen.error(str(error))
        except KeyboardInterrupt:
            dialogue.screen.note("stopped")
        if dialogue.leaving:
            return


def take(dialogue: Dialogue, line: str) -> None:
    """Run a command, or answer a question."""
    if is_command(line):
        run_command(dialogue, line)
    elif line:
        dialogue.ask(line)
