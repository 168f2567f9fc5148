"""Writes the captions that replace images in view C of a prompt."""

from collections.abc import Sequence
from typing import Protocol

from mmspec.chat.loaded_model import LoadedModel
from mmspec.chat.session import Session
from mmspec.decoding.sampling import GREEDY
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.prompt.conversation import Conversation, Message, render
from mmspec.prompt.images import Picture

PROMPT = "Provide a one-sentence caption for the provided image."
MAX_TOKENS = 48
"""The maximum length of a caption, in tokens."""


class Captioner(Protocol):
    """Describes an image in a sentence, for view C."""

    def caption(self, picture: Picture) -> str:
        """A caption of `picture`: plain text on one line."""


class ModelCaptioner:
    """Writes captions with a LLaVA checkpoint, by plain greedy decoding."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded

    def caption(self, picture: Picture) -> str:
        """The model's greedy answer to a request for a one-sentence caption."""
        loaded, conversation = self._loaded, Conversation()
        conversation.add(Message("user", (picture, PROMPT)))
        chunks = render(conversation, loaded.template, loaded.tokenizer)
        session = Session(loaded.model.open_target(GREEDY), loaded.views(_nothing), loaded.view)
        for _ in session.prefill(chunks):
            pass
        plain = FixedDraftLength(0)
        rounds = session.decode(plain, max_tokens=MAX_TOKENS, stop=loaded.stop, seed=0)
        ids = [token for round_ in rounds for token in round_.tokens]
        return " ".join(loaded.tokenizer.decode(ids).split())

    def forget(self) -> None:
        """Drop the cached vision features of all images."""
        if self._loaded.features:
            self._loaded.features.forget()


def _nothing(_: Picture) -> Sequence[int]:
    return ()
