"""One conversation with a person: what is staged, asked, shown and said about it."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import click

from mmspec.chat import Chat
from mmspec.conversation import Conversation
from mmspec.errors import ContextError, MmspecError, UsageError
from mmspec.images import Picture, open_picture
from mmspec_cli.attachments import take_images
from mmspec_cli.footer import footer
from mmspec_cli.interrupt import deferred_interrupt
from mmspec_cli.render import Screen
from mmspec_cli.report import answer_report
from mmspec_cli.streaming import Answering, stream
from mmspec_cli.typeahead import hidden_typing


class Talk:
    """A chat on a screen.

    Whatever raises MmspecError leaves the conversation and the staged images as they were.
    """

    def __init__(
        self, chat: Chat, screen: Screen, *, interactive: bool, as_json: bool = False
    ) -> None:
        """Talk with `chat`.

        interactive: Ctrl-C ends an answer only, not the command.  as_json: every line of stdout
        is a JSON object, answers those of `generate --json`.
        """
        self.chat = chat
        self.screen = screen
        self.staged: list[Picture] = []
        self.leaving = False
        self.interactive = interactive
        self._as_json = as_json
        self._noted: list[str] = []
        # Conversations that others took the place of, with the turns that these had at once.
        self._before: list[tuple[Conversation, int]] = []
        self._refused = ""

    @property
    def prompt(self) -> str:
        """What stands before a question, with the number of images that will go with it."""
        count = len(self.staged)
        return f"[{count} image{'s' if count > 1 else ''}] > " if count else "> "

    def tell(self, text: str) -> None:
        """Say what a command did."""
        if self._as_json:
            self.screen.json({"notice": text})
        else:
            self.screen.say(text)

    def show(
        self, value: dict[str, Any], columns: Sequence[str], rows: Sequence[Sequence[str]]
    ) -> None:
        """Show a table, or the same as JSON."""
        if self._as_json:
            self.screen.json(value)
        else:
            self.screen.table(columns, rows)

    def stage(self, pictures: Sequence[Picture]) -> None:
        """Keep images for the next question."""
        if pictures and self.chat.engine.target.features is None:
            raise UsageError(f"{self.chat.engine.target.name} is text-only and cannot see images")
        for picture in pictures:
            self.screen.note(f"Added image {picture.name}")
        self.staged += pictures

    def stage_file(self, path: str) -> None:
        """Keep the image in a file for the next question; raises ImageError."""
        self.stage([open_picture(path)])

    def ask(self, message: str) -> None:
        """Answer a message; images whose paths it names go with it, after the staged ones.

        One that names a file that is not there is refused, and sent as text when it comes again.
        """
        before = list(self.staged)
        again, self._refused = message == self._refused, message
        text, attached = take_images(message, words=again)
        self._refused = ""
        self.stage(attached)
        if not text:
            return
        images, self.staged = self.staged, []
        try:
            self._show(self.chat.ask(text, images))
        except ContextError as error:
            self.staged = before
            raise ContextError(f"{error}, or start again with /reset") from error
        except MmspecError:
            self.staged = before
            raise

    def go_on(self, conversation: Conversation) -> bool:
        """Take up another conversation; whether `undo` can bring the one before back."""
        before = self.chat.conversation
        self.chat.resume(conversation)
        if before.turns:
            self._before.append((before, len(conversation.turns)))
        return bool(before.turns)

    def undo(self) -> str:
        """Take back the last turn, or the last `go_on` where none was added; say which."""
        if self._before and len(self.chat.conversation.turns) <= self._before[-1][1]:
            self.chat.conversation, _ = self._before.pop()
            return "brought back the conversation before"
        turns = self.chat.conversation.turns
        images = len(turns[-1].question.pictures) if turns else 0
        self.chat.conversation.undo()
        told = "took back the last question and its answer"
        return f"{told}, and with them {images} image{'s' * (images > 1)}" if images else told

    def retry(self) -> None:
        """Answer the last question again, drawing anew where tokens are drawn."""
        options = self.chat.options
        answering = self.chat.retry()
        if not options.sampling.greedy:
            self.chat.options = replace(options, seed=options.seed + 1)
        self._show(answering)

    def _show(self, answering: Answering) -> None:
        typing = hidden_typing() if self.interactive else nullcontext()
        with typing, deferred_interrupt() as interrupt:
            first = stream(answering, self.screen, interrupt, silent=self._as_json)
            if self._as_json:
                self.screen.json(answer_report(self.chat))
            else:
                self._remark(first)
        if not self.interactive and self.chat.answer.finish_reason == "interrupted":
            raise click.Abort

    def _remark(self, first_token: float | None) -> None:
        """Say how the answer ended and what it cost; a note is not repeated turn after turn."""
        screen, answer = self.screen, self.chat.answer
        screen.end_line()
        if answer.finish_reason != "stop":
            screen.note(_unfinished(answer.finish_reason, self.chat.options.max_new_tokens))
        for note in answer.notes:
            if note not in self._noted:
                screen.note(note)
        self._noted = answer.notes
        screen.note(footer(answer.statistics, first_token))


def _unfinished(reason: str, budget: int) -> str:
    if reason == "length":
        return f"cut at {budget} tokens (--max-new-tokens)"
    return "stopped; /retry answers again"
