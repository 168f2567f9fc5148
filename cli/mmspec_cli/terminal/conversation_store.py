"""Keeps conversations, and their token ids for lookup, in files that only their owner can read."""

import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from mmspec.chat.chat import Chat
from mmspec.chat.engine import Engine
from mmspec.chat.loaded_model import LoadedModel
from mmspec.chat.memory import Memory
from mmspec.ground.errors import CheckpointError
from mmspec.ground.input_files import expand_home, read_text
from mmspec.ground.json_file import LINES_BYTES, Length
from mmspec.ground.json_reader import parse_json, read_value
from mmspec.ground.latest_values import LatestValues
from mmspec.ground.output_files import make_directory, replace_text, write_errors
from mmspec.prompt.images import Picture
from mmspec.prompt.saved_conversation import SavedTurn, png
from mmspec.prompt.tokenizer_files import tokenizer_file
from mmspec_terminal.render import Screen

PNG_BYTES = 256_000_000
"""Bytes of pictures that stay encoded."""
MOST_MEMORIES = 63
"""Files of tokenizers at most, the latest: with the one in use they have 64 MiB."""


def state_directory() -> Path:
    """The directory of what is kept between chats: under $XDG_STATE_HOME, or ~/.local/state."""
    return expand_home(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "mmspec"


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """The file of a conversation: when it was written, its model, and its questions."""

    path: Path
    timestamp: float
    model: str
    questions: int
    first: str
    """The text of the first question."""

    @property
    def when(self) -> str:
        """When it was written, in local time."""
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.timestamp))

    @property
    def name(self) -> str:
        """What notices call it."""
        return f"the conversation of {self.when}"


@dataclass(slots=True)
class ConversationStore:
    """The folder of this user's conversations, and the file of the one that goes on."""

    folder: Path = field(default_factory=lambda: state_directory() / "conversations")
    file: Path | None = None
    """None until the conversation is kept for the first time."""
    _pngs: LatestValues[str] = field(default_factory=lambda: LatestValues(PNG_BYTES, len))
    _stamps: dict[Path, tuple[int, int] | None] = field(default_factory=dict)
    """Inode and time of each file as this chat read or wrote it."""

    def go_on_in(self, file: Path | None) -> None:
        """Keep a conversation that was just read, in its file; None begins a new one."""
        self.file = file
        if file:
            self._stamps[file] = _stamp(file)

    def keep(self, chat: Chat) -> bool:
        """Write the conversation; deletes its file if it has no turn. Raises WriteError.

        True if it takes a new file, because another chat writes the one that it had.
        """
        file = self.file
        is_shared = file is not None and _stamp(file) not in (None, self._stamps.get(file))
        if is_shared:
            self.file = None
        if not chat.conversation.turns:
            if self.file:
                with write_errors(self.file):
                    self.file.unlink(missing_ok=True)
            return is_shared
        make_directory(self.folder)
        with write_errors(self.folder):
            self.folder.chmod(0o700)
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}.json"
        self.file = self.file or self.folder / name
        record = chat.conversation.as_record(self._png) | {"model": _name(chat.models.target)}
        replace_text(self.file, json.dumps(record, ensure_ascii=False), private=True)
        self._stamps[self.file] = _stamp(self.file)
        return is_shared

    def _png(self, picture: Picture) -> str:
        """A picture without a file, encoded once: the conversation is kept after every answer."""
        return self._pngs.get(picture.digest, lambda: png(picture))

    def files(self) -> Iterator[ConversationFile]:
        """Read the kept conversations, the latest first, without files that hold none."""
        times = {file: stamp[1] for file in self.folder.glob("*.json") if (stamp := _stamp(file))}
        return filter(None, map(_describe, sorted(times, key=times.__getitem__, reverse=True)))


def _stamp(file: Path) -> tuple[int, int] | None:
    """What changes whenever the file is replaced; None if there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _name(model: LoadedModel) -> str:
    """The name by which a chat in any folder loads a model: of a directory the whole path."""
    is_path = model.directory == expand_home(model.name)
    name = str(model.directory.absolute()) if is_path else model.name
    return name.encode(errors="replace").decode()  # the bytes of a path need be no text


@dataclass(frozen=True, slots=True)
class _Record:
    """What a list of conversations shows of one."""

    model: str
    turns: Annotated[list[SavedTurn], Length(1, 1_000_000)]


def _describe(path: Path) -> ConversationFile | None:
    try:
        record = read_value(_Record, parse_json(read_text(path, LINES_BYTES)))
        timestamp = path.stat().st_mtime
    except (OSError, ValueError):
        return None
    first = " ".join(part.text for part in record.turns[0].question if part.text is not None)
    return ConversationFile(path, timestamp, record.model, len(record.turns), first)


def memory_files() -> list[Path]:
    """The files of all tokenizers, the latest first."""
    files = (state_directory() / "lookup").glob("*.ids")
    return sorted(files, key=lambda file: -file.stat().st_mtime)


def remember(engine: Engine, screen: Screen) -> None:
    """Let lookup find places in earlier conversations of this tokenizer; a note if it cannot."""
    target = engine.target
    digest = sha256(tokenizer_file(target.directory).read_bytes()).hexdigest()[:24]
    file = state_directory() / "lookup" / f"{digest}.ids"
    try:
        for memory in [path for path in memory_files() if path != file][MOST_MEMORIES:]:
            memory.unlink(missing_ok=True)
        engine.memory = Memory(target.model.config.text.vocab_size, file)
    except (CheckpointError, OSError) as error:
        screen.note(f"lookup remembers no earlier conversations: {error}")
