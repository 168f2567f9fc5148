"""Writes or reads the captions that replace images in view C of a prompt."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mmspec.chat.loaded_model import LoadedModel
from mmspec.chat.session import Session
from mmspec.decoding.sampling import GREEDY
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.ground.errors import ImageError, UsageError
from mmspec.ground.input_files import expand_home
from mmspec.ground.json_file import read_lines, typed_lines
from mmspec.prompt.conversation import Conversation, Message
from mmspec.prompt.images import Picture, open_picture

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
        conversation.add(Message("user", (picture.still, PROMPT)))
        chunks = loaded.chunks(conversation)
        session = Session(loaded.model.open_target(GREEDY), loaded.views(lambda _: ()), loaded.view)
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


@dataclass(frozen=True, slots=True)
class FileCaptioner:
    """Looks captions up by an image's path, else by its file name; without a name by content."""

    file: Path
    captions: Mapping[str, str]
    """The file's captions, by an image's path or name."""
    other: Captioner | None = None
    """Writes the captions that the file lacks; None if nothing does."""
    _digests: dict[str, str] = field(default_factory=dict)
    """Digests of the images whose paths the file has, as far as they were needed."""

    def caption(self, picture: Picture) -> str:
        """The file's caption, else the other captioner's; raises UsageError without either."""
        names = (picture.name, Path(picture.name).name) if picture.name else self._alike(picture)
        for name in names:
            if name in self.captions:
                return self.captions[name]
        if self.other is None:
            raise UsageError(
                f"{self.file.name} has no caption of {picture.name or 'an image'}: add one, or "
                "name a captioner for the images that it lacks"
            )
        return self.other.caption(picture)

    def _alike(self, picture: Picture) -> Iterator[str]:
        """The paths of the file, from its folder on, of images that are the same as `picture`."""
        for name in self.captions:
            if name not in self._digests:
                with suppress(ImageError):  # it need not be there
                    opened = open_picture(self.file.parent / expand_home(name))
                    self._digests[name] = opened.digest
            if self._digests.get(name) == picture.digest:
                yield name

    def forget(self) -> None:
        """Drop what the other captioner has cached."""
        if isinstance(self.other, ModelCaptioner):
            self.other.forget()


def read_captions(file: Path) -> FileCaptioner:
    """Read lines {"image": path or name, "caption": text}; UsageError names the first other one."""
    remedy = ': give a line like {"image": "a.jpg", "caption": "A cat on a mat."}'
    entries = typed_lines(_Caption, read_lines(file), file, remedy)
    return FileCaptioner(file, {each.image: " ".join(each.caption.split()) for _, each in entries})


@dataclass(frozen=True, slots=True)
class _Caption:
    image: str
    caption: str
