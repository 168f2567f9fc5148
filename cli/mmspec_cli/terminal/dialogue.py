"""A chat on a screen: images for the next question, questions, answers and remarks."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import click

from mmspec.chat.answer import Stream
from mmspec.chat.chat import Chat
from mmspec.ground.errors import CheckpointError, ContextError, UsageError, WriteError
from mmspec.ground.settings import next_seed
from mmspec.prompt.conversation import Conversation
from mmspec.prompt.images import Picture
from mmspec_cli.terminal.absent_models import load_or_pull
from mmspec_cli.terminal.answer import answer_report, ending, footer, remarks, stream
from mmspec_cli.terminal.attachments import Attachments, take_images
from mmspec_cli.terminal.conversation_store import ConversationStore, remember
from mmspec_cli.terminal.interrupt import defer_interrupt, hide_typing
from mmspec_cli.terminal.room import first_questions, room_offers, to_forget
from mmspec_terminal.render import Screen
from mmspec_terminal.setup import Setup
from mmspec_terminal.wording import quantity

ENDINGS = {
    "length": "cut at {} tokens; /continue goes on, /max-new-tokens allows longer answers",
    "full": "cut at {} tokens: the context is full; /drop N forgets the first questions",
    "interrupted": "stopped; /retry answers again, /continue goes on",
}
"""The remarks on answers that did not end by themselves."""

EXPLANATION = (
    "the last figure compares with decoding without a draft, by measured rounds; the text "
    "is the same. /stats shows more"
)
"""Said once of the line under an answer."""

PLAIN_DECODING = "drafts do not pay at the moment; /stats says why; the text is the same"
"""Said once in a chat that an answer ended in plain decoding."""

SHARED = (
    "another chat goes on with this conversation too: this one is now kept in a file of its own"
)


@dataclass(frozen=True, slots=True)
class _Earlier:
    """A conversation that another one replaced, for `undo`."""

    conversation: Conversation
    store_file: Path | None
    """The file in which it is kept."""
    file: Path | None
    """What `Dialogue.file` was."""
    turns: int
    """The number of turns with which its successor began."""


@dataclass
class Dialogue:
    """A chat on a screen; a method that raises MmspecError leaves chat and images unchanged."""

    chat: Chat
    setup: Setup
    is_interactive: bool
    """True if Ctrl-C ends only an answer, not the command."""
    store: ConversationStore | None = None
    """Where the conversation is written after every answer; None nowhere."""
    shows_previews: bool = False
    """True if images that are added are shown."""
    next_images: list[Picture] = field(default_factory=list)
    """Images and clips for the next question."""
    is_leaving: bool = False
    refused_line: str = ""
    """The last line that was refused, if entering it again does what it says."""
    offer: tuple[int, str] | None = None
    """The number of questions that an empty line forgets, and the question that it asks again.

    It holds for the next line alone: after a command they may be others, or none need be forgotten.
    """
    file: Path | None = None
    """The file that this conversation was last saved to or loaded from."""
    _store_fails: bool = False
    _earlier_notes: set[str] = field(default_factory=set)
    _undo_stack: list[_Earlier] = field(default_factory=list)

    @property
    def screen(self) -> Screen:
        """Where all is shown."""
        return self.setup.screen

    @property
    def prompt(self) -> str:
        """The prompt, with the number of images and clips for the next question."""
        return f"[{in_numbers(self.next_images)}] > " if self.next_images else "> "

    def notice(self, text: str) -> None:
        """Show `text`, the result of a command."""
        self.screen.tell({"notice": text}, [text])

    def stage(self, pictures: Sequence[Picture]) -> None:
        """Add images to the next question; raises UsageError for a text-only target."""
        self.chat.models.target.require_sight(pictures)
        earlier = (*self.chat.conversation.pictures, *self.next_images)
        names = {picture.digest: picture.name for picture in earlier}
        for picture in pictures:
            self.screen.note(f"Added {picture.kind} {picture.name} ({picture.shape})")
            if self.shows_previews:
                self.screen.picture(picture.image)
            if name := names.get(picture.digest):
                fact = "known already" if name == picture.name else f"the same image as {name}"
                self.screen.note(f"{picture.name} is {fact}: it is sent again")
            names[picture.digest] = picture.name
        self.next_images += pictures

    def ask(self, message: str) -> None:
        """Answer a message, with the next images and those whose paths it contains.

        One that names a file which cannot be seen is refused once, and sent as text if repeated.
        """
        earlier_images, self.offer = list(self.next_images), None
        is_repeated, self.refused_line = message == self.refused_line, message
        attachments = Attachments(message)
        if self.chat.models.target.features or not is_repeated:
            attachments = take_images(message, as_text=is_repeated, sampling=self.setup.sampling)
        self.screen.note(*attachments.remarks)
        self.stage(attachments.pictures)
        self.refused_line = ""
        if not attachments.text:
            return
        images, self.next_images = self.next_images, []
        turns = len(self.chat.conversation.turns)
        try:
            self._show(self.chat.ask(attachments.text, images))
        except ContextError as error:
            self.refused_line = message if is_repeated else ""  # its paths are text for Enter too
            if self.is_interactive:
                self._offer(message, error)
            raise
        finally:
            if len(self.chat.conversation.turns) == turns:  # nothing was asked, also by Ctrl-C
                self.next_images = earlier_images

    def _offer(self, message: str, error: ContextError) -> None:
        """Let Enter forget the oldest questions and ask again; raises ContextError with that."""
        for number, _ in to_forget(self.chat, error.excess):
            self.offer = number, message
            oldest = first_questions(self.chat.conversation.turns[:number])
            offer = f"{error}; Enter forgets {oldest}, and asks again"
            raise ContextError(offer, error.excess) from error

    def accept(self) -> None:
        """Forget the questions that were offered to be forgotten, and ask again; or do nothing."""
        if self.offer:
            number, message = self.offer
            self.forget(number, "; /undo twice brings the conversation back")
            self.ask(message)

    def forget(self, number: int, back: str) -> None:
        """Forget the first questions; back: what is said of bringing them back."""
        conversation = self.chat.conversation
        self.resume(Conversation(conversation.system, conversation.turns[number:]))
        self.notice(f"forgot {first_questions(conversation.turns[:number])}{back}")

    def resume(self, conversation: Conversation, file: Path | None = None) -> bool:
        """Replace the conversation; True if `undo` can restore the last one that has turns.

        file: where the new one is kept already.
        """
        earlier, turns = self.chat.conversation, len(conversation.turns)
        self.chat.resume(replace(conversation, thinking=earlier.thinking))
        if earlier.turns:
            store_file = self.store.file if self.store else None
            self._undo_stack.append(_Earlier(earlier, store_file, self.file, turns))
        elif self._undo_stack:
            self._undo_stack[-1] = replace(self._undo_stack[-1], turns=turns)
        self.file = None
        if self.store:
            self.store.go_on_in(file)
        return bool(self._undo_stack)

    def switch(self, name: str) -> None:
        """Go on with another model; its tokenizer encodes the earlier answers anew.

        Raises MmspecError and keeps the old one if it cannot be loaded or see the images.
        """
        self.screen.progress(f"loading {name}")
        loading = partial(self.setup.load_other, name, self.chat.options)
        engine = load_or_pull(loading, self.screen, ask=self.is_interactive)
        chat = engine.chat(self.chat.options)
        chat.speculate = self.chat.speculate
        engine.target.require_sight(self.next_images)
        conversation = engine.target.translate(self.chat.conversation)
        if not engine.target.template.reads_thinking:
            conversation = replace(conversation, thinking=None)
        chat.resume(conversation)
        if conversation.thinking != self.chat.conversation.thinking:
            self.screen.note(f"{name} has no setting for --thinking: it is left out")
        self.chat = chat
        if self.store:
            remember(engine, self.screen)
        self._undo_stack = [
            replace(earlier, conversation=engine.target.translate(earlier.conversation))
            for earlier in self._undo_stack
        ]

    def extend(self) -> None:
        """Go on with an answer that was cut."""
        if self.chat.conversation.last().complete:
            raise UsageError("the last answer is complete: ask on, or /retry")
        self._show(self.chat.extend())

    def undo(self) -> None:
        """Take back the last question and its answer, a /reset, /drop or /load."""
        turns = self.chat.conversation.turns
        if self._undo_stack and len(turns) <= self._undo_stack[-1].turns:
            earlier = self._undo_stack[-1]
            self.chat.models.target.require_sight(earlier.conversation.pictures)
            self._undo_stack.pop()
            thinking = self.chat.conversation.thinking  # as the model that answers now reads it
            self.chat.conversation = replace(earlier.conversation, thinking=thinking)
            self.file = earlier.file
            if self.store:
                self.store.file = earlier.store_file
            self.notice("brought back the conversation before")
            return
        pictures = turns[-1].question.pictures if turns else ()
        self.chat.conversation.undo()
        self._keep()
        with_pictures = f", and with them {in_numbers(pictures)}" if pictures else ""
        self.notice(f"took back the last question and its answer{with_pictures}")

    def retry(self) -> None:
        """Answer the last question again."""
        options = self.chat.options
        answering = self.chat.retry()
        if not options.sampling.greedy:  # with another seed
            self.chat.options = replace(options, seed=next_seed(options.seed))
        self._show(answering)

    def _show(self, answering: Stream) -> None:
        typing = hide_typing() if self.is_interactive else nullcontext()
        with typing, defer_interrupt() as interrupt:
            try:
                first_token = stream(answering, self.screen, interrupt)
            except ContextError as error:
                offers = room_offers(self.chat, error.excess)
                raise ContextError(f"{error}; {offers}", error.excess) from error
            except BaseException:  # a signal, a lost terminal or a fault in mid-answer
                self._keep()
                raise
            if self.screen.as_json:
                self.screen.json(answer_report(self.chat))
            else:
                self._remark(first_token)
            self._keep()
        if not self.is_interactive and self.chat.answer.finish_reason == "interrupted":
            raise click.Abort

    def _remark(self, first_token: float | None) -> None:
        """Show how the answer ended, notes that were not shown before, and its cost."""
        screen, answer, details = self.screen, self.chat.answer, self.setup.details
        turns = self.chat.conversation.turns
        if not answer.rounds and not answer.beginning and (not turns or turns[-1].answer):
            reason = "the answer from before stays" if turns else "nothing was asked"
            screen.note(f"stopped: {reason}")
            return
        screen.note(*ending(self.chat, ENDINGS))
        for note in remarks(answer, details=details):
            self._note_once(note)
        screen.note(footer(self.chat, first_token, details=details))
        if answer.plain_reason and not details:
            self._note_once(PLAIN_DECODING)
        if self.is_interactive and answer.speed_up and not details:
            self._note_once(EXPLANATION)

    def _note_once(self, note: str) -> None:
        """Show a remark, unless one was shown that differs in its numbers alone."""
        words = re.sub(r"(?<![\w.])\d+(\.\d+)?(?![\w.])", "#", note)  # not those of file names
        if words not in self._earlier_notes:
            self.screen.note(note)
        self._earlier_notes.add(words)

    def _keep(self) -> None:
        """Write the conversation where it is kept; says so when that begins or ceases to fail."""
        if self.store is None:
            return
        try:
            if self.store.keep(self.chat):
                self.screen.note(SHARED)
            if self.chat.models.memory:
                self.chat.models.memory.save()
        except (WriteError, CheckpointError) as error:
            if not self._store_fails:
                self.screen.note(f"this conversation is no longer kept: {error}")
            self._store_fails = True
        else:
            if self._store_fails:
                self.screen.note("this conversation is kept again")
            self._store_fails = False


def in_numbers(pictures: Sequence[Picture]) -> str:
    """`2 images, 1 clip`."""
    clips = sum(picture.kind == "clip" for picture in pictures)
    kinds = ((len(pictures) - clips, "image"), (clips, "clip"))
    return ", ".join(quantity(number, kind) for number, kind in kinds if number)
