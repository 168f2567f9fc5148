"""Reads the tokenizer of a checkpoint directory, in any of the layouts in use."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmspec.checkpoints.json_file import Block, read_json
from mmspec.errors import CheckpointError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


@dataclass(frozen=True, slots=True)
class Names:
    """The tokens that have a role; `adds_bos` is None if only tokenizer.json says so."""

    bos: str | None = None
    eos: str | None = None
    image: str = "<image>"
    adds_bos: bool | None = None


def read_names(directory: Path) -> Names:
    """The tokens' roles; raises CheckpointError for a malformed file."""
    settings, tokens = _settings(directory), special_tokens(directory)
    # A sentencepiece model does not name these tokens; all without tokenizer.json are Llama's.
    bare = not (directory / "tokenizer.json").is_file()
    return Names(
        bos=tokens.get("bos_token", "<s>" if bare else None),
        eos=tokens.get("eos_token", "</s>" if bare else None),
        image=tokens.get("image_token", "<image>"),
        adds_bos=_adds_bos(settings, bare),
    )


def special_tokens(directory: Path) -> dict[str, str]:
    """The texts of special tokens by name, such as bos_token; CheckpointError for a broken file."""
    named = ((key, _content(value)) for key, value in _settings(directory).values.items())
    return {key: text for key, text in named if text and key.endswith("_token")}


def read_backend(directory: Path) -> "Backend":
    """The tokenizer in tokenizer.json, or in an older repository's tokenizer.model.

    Raises CheckpointError if both are missing or the file cannot be read.
    """
    file = directory / "tokenizer.json"
    if not file.is_file():
        return _converted(directory)
    from tokenizers import Tokenizer as Backend

    try:
        return Backend.from_file(str(file))
    except Exception as error:  # the library raises nothing narrower
        raise CheckpointError(f"{file} is not a readable tokenizer: {error}") from error


def _settings(directory: Path) -> Block:
    """The content of tokenizer_config.json, merged with the files that other layouts use."""
    merged: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "processor_config.json", "tokenizer_config.json"):
        if (directory / name).is_file():
            values = read_json(directory / name)
            extra = values.get("extra_special_tokens")
            merged |= extra if isinstance(extra, dict) else {}
            merged |= {key: value for key, value in values.items() if value is not None}
    return Block(merged, directory / "tokenizer_config.json")


def _content(token: Any) -> str | None:
    """A token's text, stored as a string or as an object with "content"."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) and content else None


def _adds_bos(settings: Block, bare: bool) -> bool | None:
    if settings.get("add_bos_token") is None:
        return True if bare else None
    return settings.flag("add_bos_token", True)


def _converted(directory: Path) -> "Backend":
    """Convert a sentencepiece model, the format before tokenizer.json."""
    file = directory / "tokenizer.model"
    if not file.is_file():
        raise CheckpointError(f"{directory} has no tokenizer.json and no tokenizer.model")
    try:
        from transformers import LlamaTokenizer

        backend: Backend = LlamaTokenizer.from_pretrained(
            directory, local_files_only=True
        ).backend_tokenizer
    except ImportError as error:
        raise CheckpointError(
            f"{file} has to be converted: pip install transformers sentencepiece protobuf"
        ) from error
    except Exception as error:  # damaged protocol buffers raise anything
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{file} cannot be converted: {reason}") from error
    return backend
