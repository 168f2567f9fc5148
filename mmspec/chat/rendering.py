"""A conversation as a model reads it: its prompts, each tokenized once, and its answers."""

from collections.abc import Sequence
from dataclasses import replace

from mmspec.chat.loaded_model import LoadedModel
from mmspec.prompt.conversation import Chunk, Conversation, Turn, answer_ids


class Rendering:
    """The latest rendering of a conversation for one model."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._ids: dict[tuple[Sequence[str | int], bool], list[int]] = {}

    def chunks(self, conversation: Conversation) -> list[Chunk]:
        """The conversation's chunks; only what the latest one did not hold is tokenized."""
        before, now = self._ids, dict[tuple[Sequence[str | int], bool], list[int]]()

        def encode(parts: Sequence[str | int], *, continues: bool) -> list[int]:
            key = parts, continues
            ids = before.get(key)
            if ids is None:
                ids = self._model.tokenizer.encode_parts(parts, continues=continues)
            now[key] = ids
            return ids

        chunks = self._model.chunks(conversation, encode=encode)
        self._ids = now
        return chunks


def translated(conversation: Conversation, target: LoadedModel) -> Conversation:
    """A conversation with its answers in the tokens of another target."""
    return replace(conversation, turns=[_turn(turn, target) for turn in conversation.turns])


def _turn(turn: Turn, target: LoadedModel) -> Turn:
    ids = answer_ids(turn.answer_text, target.template, target.tokenizer)
    return replace(turn, answer=ids, answer_text=target.tokenizer.decode(ids).removeprefix(" "))
