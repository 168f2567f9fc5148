"""A conversation as a model reads it: its prompts, each rendered once, and its answers."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from mmspec.chat.loaded_model import LoadedModel
from mmspec.prompt.conversation import Chunk, Conversation, Message, Turn, answer_ids


class Rendering:
    """The latest rendering of a conversation for one model."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._system: str | None = None
        self._questions: Sequence[Message] = ()
        self._prompts: Sequence[Chunk] = ()

    def chunks(self, conversation: Conversation) -> list[Chunk]:
        """The conversation's chunks; turns with which the latest one began keep their prompts.

        A prompt depends on the questions up to its own, not on the answers between them.
        """
        questions = [turn.question for turn in conversation.turns]
        same = self._shared(questions) if conversation.system == self._system else 0
        chunks = self._model.chunks(conversation, prompts=self._prompts[:same])
        self._system, self._questions = conversation.system, questions
        self._prompts = [chunk for chunk in chunks if not chunk.is_answer]
        return chunks

    def _shared(self, questions: Sequence[Message]) -> int:
        pairs = zip(self._questions, questions, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def translated(conversation: Conversation, target: LoadedModel) -> Conversation:
    """A conversation with its answers in the tokens of another target."""
    return Conversation(conversation.system, [_turn(turn, target) for turn in conversation.turns])


def _turn(turn: Turn, target: LoadedModel) -> Turn:
    ids = answer_ids(turn.answer_text, target.template, target.tokenizer)
    return replace(turn, answer=ids, answer_text=target.tokenizer.decode(ids).removeprefix(" "))
