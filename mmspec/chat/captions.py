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
from mmspec.ground.json_file import parse_lines, read_lines
from mmspec.prompt.conversation import Conversation, Message, Turn
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

    def __init__(self, writer: LoadedModel) -> None:
        self._writer = writer

    def caption(self, picture: Picture) -> str:
        """The model's greedy answer to a request for a one-sentence caption."""
        writer = self._writer
        still = picture.frames[0] if picture.frames else picture
        chunks = writer.chunks(Conversation(turns=[Turn(Message("user", (still, PROMPT)))]))
        session = Session(writer.model.open_target(GREEDY), writer.views(lambda _: ()), writer.view)
        for _ in session.prefill(chunks):
            pass
        plain = FixedDraftLength(0)
        rounds = session.decode(plain, max_tokens=MAX_TOKENS, stop=writer.stop, seed=0)
        ids = [token for round_ in rounds for token in round_.tokens]
        return " ".join(writer.tokenizer.decode(ids).split())

    def forget(self) -> None:
        """Drop the cached vision features of all images."""
        if self._writer.features:
            self._writer.features.forget()


@dataclass(frozen=True, slots=True)
class FileCaptioner:
    """Looks captions up by an image's path, else by its file name; without a name by content."""

    file: Path
    captions: Mapping[str, str]
    """The file's captions, by an image's path or name."""
    fallback: Captioner | None = None
    """Writes the captions that the file lacks; None if nothing does."""
    _digests: dict[str, str] = field(default_factory=dict)
    """Digests of the images whose paths the file has, as far as they were needed."""
    _sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of the files that are there, once one was needed."""

    def caption(self, picture: Picture) -> str:
        """The file's caption, else the fallback's; raises UsageError without either."""
        names = (picture.name, Path(picture.name).name) if picture.name else self._paths_of(picture)
        for name in names:
            if name in self.captions:
                return self.captions[name]
        if self.fallback is None:
            raise UsageError(
                f"{self.file.name} has no caption of {picture.name or 'an image'}: add one, or "
                "name a captioner for the images that it lacks"
            )
        return self.fallback.caption(picture)

    def _paths_of(self, picture: Picture) -> Iterator[str]:
        """The paths of the file, from its folder on, of images that are the same as `picture`.

        Files with as many bytes as its own are opened first: most clients send a file as it is.
        """
        paths = {name: self.file.parent / expand_home(name) for name in self.captions}
        for name in () if self._sizes else paths:
            with suppress(OSError):
                self._sizes[name] = paths[name].stat().st_size
        for name in sorted(paths, key=lambda name: self._sizes.get(name) != picture.file_bytes):
            if name not in self._digests:
                with suppress(ImageError):  # it need not be there
                    self._digests[name] = open_picture(paths[name]).digest
            if self._digests.get(name) == picture.digest:
                yield name


def read_captions(file: Path) -> FileCaptioner:
    """Read lines {"image": path or name, "caption": text}; UsageError names the first other one."""
    remedy = ': give a line like {"image": "a.jpg", "caption": "A cat on a mat."}'
    entries = parse_lines(_Caption, read_lines(file), file, remedy)
    captions = {entry.image: " ".join(entry.caption.split()) for _, entry in entries}
    return FileCaptioner(file, captions)


@dataclass(frozen=True, slots=True)
class _Caption:
    image: str
    caption: str
