"""Encodes a conversation's answers for another model."""

from dataclasses import replace

from mmspec.chat.models import Models
from mmspec.prompt.conversation import Conversation, Turn, answer_ids


def translated(conversation: Conversation, models: Models) -> Conversation:
    """A conversation with its answers in the tokens of the target of `models`."""
    return Conversation(conversation.system, [_turn(turn, models) for turn in conversation.turns])


def _turn(turn: Turn, models: Models) -> Turn:
    target = models.target
    ids = answer_ids(turn.answer_text, target.template, target.tokenizer)
    text = target.tokenizer.decode(ids).removeprefix(" ")
    return replace(turn, answer=ids, answer_text=text)
