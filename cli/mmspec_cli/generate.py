"""`mmspec generate`: one question, one answer."""

import sys

import click

from mmspec.ground.errors import UsageError
from mmspec.prompt.conversation import Conversation
from mmspec_cli.main import INTERRUPT_STATUS
from mmspec_cli.terminal.answer import (
    answer_report,
    ending,
    footer,
    introduction,
    remarks,
    stream,
)
from mmspec_cli.terminal.attachments import unseen_images
from mmspec_cli.terminal.image_sources import STANDARD_INPUT, open_images
from mmspec_cli.terminal.interrupt import defer_interrupt
from mmspec_terminal.help_pages import EverydayCommand
from mmspec_terminal.options import SYSTEM
from mmspec_terminal.setup import Setup, shared_options

ENDINGS = {
    "length": "cut at {} tokens; `max_new_tokens` allows longer answers",
    "full": "cut at {} tokens: the context is full",
    "interrupted": "stopped",
}
"""The remarks on answers that did not end by themselves."""


@click.command(cls=EverydayCommand)
@click.argument("images", nargs=-1, metavar="[IMAGE]...", type=click.Path(readable=False))
@click.option(
    "-p", "--prompt", required=True, metavar="TEXT", help="The question; - reads it from stdin."
)
@SYSTEM
@shared_options
def generate(
    setup: Setup, images: tuple[str, ...], prompt: str, system: str | None, thinking: bool | None
) -> int:
    """Answer one question, with or without images and clips, on stdout; - is an image on stdin."""
    screen = setup.screen
    if prompt == STANDARD_INPUT and STANDARD_INPUT in images:
        raise UsageError("standard input holds the prompt or an image, not both: give - once")
    text = sys.stdin.read().strip() if prompt == STANDARD_INPUT else prompt
    if not text.strip():
        raise UsageError("--prompt is empty: give a question")
    pictures = open_images(images, setup.sampling)
    engine = setup.load(ready=True)
    chat = engine.chat(setup.options, Conversation(system, thinking=thinking))
    screen.note(*([] if screen.as_json else introduction(engine)))
    screen.note(*(unseen_images(text, images) if engine.target.features else []))
    with defer_interrupt() as interrupt:
        first_token = stream(chat.ask(text, pictures), screen, interrupt)
        if screen.as_json:
            screen.json(answer_report(chat))
        else:
            screen.note(*remarks(chat.answer, details=setup.details))
            screen.note(*ending(chat, ENDINGS))
            screen.note(footer(chat, first_token, details=setup.details))
    return INTERRUPT_STATUS if chat.answer.finish_reason == "interrupted" else 0
