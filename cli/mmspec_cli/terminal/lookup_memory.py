"""Files with the token ids of a user's conversations, in which lookup finds places too."""

from hashlib import sha256
from pathlib import Path

from mmspec.chat.engine import Engine
from mmspec.chat.memory import Memory
from mmspec.ground.errors import CheckpointError
from mmspec.prompt.tokenizer_files import tokenizer_file
from mmspec_cli.terminal.kept_conversations import state_directory
from mmspec_terminal.render import Screen

MOST_FILES = 63
"""Files of tokenizers at most, the latest: with the one in use they have 64 MiB."""


def memory_files() -> list[Path]:
    """The files of all tokenizers, the latest first."""
    files = (state_directory() / "lookup").glob("*.ids")
    return sorted(files, key=lambda file: -file.stat().st_mtime)


def remember(engine: Engine, screen: Screen) -> None:
    """Let lookup find places in earlier conversations of this tokenizer; a note if it cannot."""
    target = engine.target
    digest = sha256(tokenizer_file(target.directory).read_bytes()).hexdigest()[:24]
    file = state_directory() / "lookup" / f"{digest}.ids"
    for old in [other for other in memory_files() if other != file][MOST_FILES:]:
        old.unlink(missing_ok=True)
    try:
        engine.memory = Memory(target.model.config.text.vocab_size, file)
    except CheckpointError as error:
        screen.note(f"lookup remembers no earlier conversations: {error}")
