"""What a target must be able to do for a conversation."""

from collections.abc import Sequence

from mmspec.chat.loaded_model import LoadedModel
from mmspec.ground.errors import ContextError, UsageError
from mmspec.prompt.conversation import Turn
from mmspec.prompt.images import Picture


def require_sight(target: LoadedModel, pictures: Sequence[Picture]) -> None:
    """Raise UsageError for images to a text-only model."""
    if pictures and target.features is None:
        raise UsageError(f"{target.name} is text-only and cannot see images")


def require_own_answer(target: LoadedModel, number: int, turn: Turn) -> None:
    """Raise UsageError if the answer's tokens are not the target's, or not those of its text.

    number: that of the turn in its conversation, from 1 on.
    """
    answer, size = turn.answer or (), target.model.config.text.vocab_size
    for token in answer:
        if not 0 <= token < size:
            raise UsageError(
                f"answer {number} holds {token}, which is no token of {target.name}'s (0 to "
                f"{size - 1}): the file was damaged, or comes from another model"
            )
    text = target.tokenizer.decode(answer).removeprefix(" ")
    saved = turn.answer_text.removeprefix(" ")
    # An interrupted answer may end within a character, a whole one with a stop token.
    if not (text.startswith(saved) or saved.startswith(text)):
        raise UsageError(
            f"answer {number} was written in other tokens than {target.name}'s:"
            " go on with the model that gave it"
        )


def require_room(target: LoadedModel, length: int, max_new_tokens: int) -> None:
    """Raise ContextError if so long an answer does not fit after a prompt of `length` positions."""
    room = target.model.config.text.max_position_embeddings
    if length + max_new_tokens > room:
        raise ContextError(
            f"prompt and images take {length} positions and the answer may take "
            f"{max_new_tokens}: {target.name} has {room}; use fewer images, "
            "a shorter prompt or a smaller `max_new_tokens`",
            length + max_new_tokens - room,
        )
