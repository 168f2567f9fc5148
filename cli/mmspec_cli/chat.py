"""`mmspec chat`: talk about images at a terminal, or answer the lines of a pipe."""

from contextlib import nullcontext

import click

from mmspec.cards import load_cards
from mmspec.engine import PREFERRED, Engine
from mmspec.errors import MmspecError
from mmspec.images import open_picture
from mmspec_cli.chat_commands import COMMANDS, LEAVING, is_command, run_command
from mmspec_cli.line_editing import is_interactive, line_editing
from mmspec_cli.options import Setup, shared_options
from mmspec_cli.questions import piped, questions, typed
from mmspec_cli.render import Screen
from mmspec_cli.talk import Talk

HINT = "/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves."


@click.command()
@click.argument("images", nargs=-1, metavar="[IMAGE]...")
@shared_options
def chat(setup: Setup, images: tuple[str, ...]) -> None:
    """Talk about images; those named here go with the first question.

    With input from a pipe each line is a question.
    """
    screen = Screen(plain=setup.plain, accepted=setup.accepted)
    pictures = [open_picture(image) for image in images]
    screen.progress("loading")
    engine = setup.load()
    interactive = is_interactive()
    opened = engine.chat(setup.options)
    talk = Talk(opened, screen, interactive=interactive, as_json=setup.as_json)
    for note in introduction(engine):
        screen.note(note)
    talk.stage(pictures)
    if interactive:
        screen.note(HINT)
    with line_editing(list(COMMANDS)) if interactive else nullcontext():
        converse(talk)


def introduction(engine: Engine) -> list[str]:
    """What the engine chose, and for the bundled model what it is and is not for."""
    card = load_cards().get(engine.target.name)
    if card is None or card.bundled is None:
        return engine.notes
    get = f"mmspec models pull {PREFERRED}"
    return [*engine.notes, f"{card.name}: {card.note} ({get})"]


def converse(talk: Talk) -> None:
    """Take lines until the end of the input or /quit; an error ends nothing but its line."""
    for line in questions(typed if talk.interactive else piped, lambda: talk.prompt):
        try:
            take(talk, line.strip())
        except MmspecError as error:
            talk.screen.error(str(error))
        except KeyboardInterrupt:
            talk.screen.note("stopped")
        if talk.leaving:
            return


def take(talk: Talk, line: str) -> None:
    """Run a command, or ask."""
    if line.lower() in LEAVING:
        talk.leaving = True
    elif is_command(line):
        run_command(talk, line)
    elif line:
        talk.ask(line)
