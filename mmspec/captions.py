"""Captions for the C view: one per image, kept by content."""

from collections.abc import Sequence
from typing import Protocol

from mmspec.conversation import Conversation, Message, render
from mmspec.images import Picture
from mmspec.loaded import LoadedModel
from mmspec.sampling import GREEDY
from mmspec.session import Session
from mmspec.tokenizer import Tokenizer

PROMPT = "Provide a one-sentence caption for the provided image."
MAX_TOKENS = 48


class Captioner(Protocol):
    """Describes one image in a sentence."""

    def caption(self, picture: Picture) -> str:
        """The caption, plain text on one line."""
        ...


class ModelCaptioner:
    """Any LLaVA checkpoint, asked for a caption and decoded plainly."""

    def __init__(self, loaded: LoadedModel) -> None:
        """Ask `loaded`, a model that sees images."""
        self._loaded = loaded

    def caption(self, picture: Picture) -> str:
        """The model's greedy answer to a request for a one-sentence caption."""
        conversation = Conversation()
        conversation.add(Message("user", (picture, PROMPT)))
        chunks = render(conversation, self._loaded.template, self._loaded.tokenizer)
        session = Session(
            self._loaded.model.open_target(GREEDY), self._loaded.views(_nothing), self._loaded.view
        )
        for _ in session.prefill(chunks):
            pass
        stop = self._loaded.tokenizer.eos_ids
        rounds = session.decode(gamma=0, max_tokens=MAX_TOKENS, stop=stop, seed=None)
        ids = [token for each in rounds for token in each.tokens]
        return " ".join(self._loaded.tokenizer.decode(ids).split())

    def forget(self) -> None:
        """Drop the vision features that were kept."""
        if self._loaded.features:
            self._loaded.features.forget()


def _nothing(_: Picture) -> Sequence[int]:
    return ()


class CaptionTokens:
    """The ids that stand for an image in the C view: `image: ` and its caption."""

    def __init__(self, captioner: Captioner, tokenizer: Tokenizer) -> None:
        """Tokenize what `captioner` says with the target's tokenizer."""
        self._captioner = captioner
        self._tokenizer = tokenizer
        self._kept: dict[str, Sequence[int]] = {}

    def __call__(self, picture: Picture) -> Sequence[int]:
        """Token ids without BOS, captioned at most once per image content."""
        if picture.digest not in self._kept:
            text = f"image: {self._captioner.caption(picture)}"
            self._kept[picture.digest] = self._tokenizer.encode(text)
        return self._kept[picture.digest]
