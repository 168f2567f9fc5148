"""Reads the tokenizer of a checkpoint directory, in any of the layouts in use."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mmspec.families.decoder import TokenId
from mmspec.families.family import ImageTokens
from mmspec.ground.errors import CheckpointError
from mmspec.ground.input_files import is_there, read_errors, require_file
from mmspec.ground.json_file import Block, Length, read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

FILE, OLDER_FILE = "tokenizer.json", "tokenizer.model"
MOST_BYTES = 200_000_000
"""The most bytes of a tokenizer's file."""
REASON = 300
"""Characters of a library's reason that an error repeats."""
TokenText = Annotated[str, Length(0, 1000)]


LLAVA_IMAGE = ImageTokens("<image>")


@dataclass(frozen=True, slots=True)
class AddedText:
    """A token that a file adds to the vocabulary, and how it is found in a text."""

    content: TokenText
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """The tokens that have a role; `adds_bos` is None if only tokenizer.json says so."""

    bos: str | None = None
    eos: str | None = None
    image: ImageTokens = LLAVA_IMAGE
    adds_bos: bool | None = None


def read_names(directory: Path, image: ImageTokens = LLAVA_IMAGE) -> Names:
    """The tokens' roles; CheckpointError for a malformed file.  image: where files name none."""
    settings, tokens = _settings(directory), special_tokens(directory)
    # A sentencepiece model does not name these tokens; all without tokenizer.json are Llama's.
    bare = not is_there(directory / FILE)
    is_explicit = settings.get("add_bos_token") is not None
    return Names(
        bos=tokens.get("bos_token", "<s>" if bare else None),
        eos=tokens.get("eos_token", "</s>" if bare else None),
        image=replace(image, image=tokens.get("image_token", image.image)),
        adds_bos=settings.flag("add_bos_token", True) if bare or is_explicit else None,
    )


def special_tokens(directory: Path) -> dict[str, str]:
    """The texts of special tokens by name, such as bos_token; CheckpointError for a broken file."""
    settings = _settings(directory)
    tokens = ((key, token) for key, token in settings.values.items() if key.endswith("_token"))
    texts = {key: _content(token, key, settings.file) for key, token in tokens}
    return {key: text for key, text in texts.items() if text}


@contextmanager
def tokenizer_errors(file: Path) -> Iterator[None]:
    """Context in which all that `tokenizers` raises, panics too, becomes a CheckpointError."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, ImportError):
        raise
    except BaseException as error:
        reason = " ".join(str(error).split())[:REASON]
        raise CheckpointError(f"{file} is not a readable tokenizer: {reason}") from error


def read_backend(directory: Path) -> "Backend":
    """The tokenizer in tokenizer.json, or in an older repository's tokenizer.model.

    Raises CheckpointError if both are missing or the file cannot be read.
    """
    file = tokenizer_file(directory)
    with read_errors(file, CheckpointError):
        size = require_file(file)
    if size > MOST_BYTES:
        raise CheckpointError(f"{file} has {size:,} bytes, and {MOST_BYTES:,} are allowed")
    if file.name == OLDER_FILE:
        return _convert(file)
    from tokenizers import Tokenizer as Backend

    with tokenizer_errors(file):
        backend = Backend.from_file(str(file))
    _add_tokens(backend, directory)
    return backend


def _add_tokens(backend: "Backend", directory: Path) -> None:
    """Add the tokens that only other files than tokenizer.json have, as transformers does.

    Raises CheckpointError for one that would get another id than its file says.
    """
    from tokenizers import AddedToken

    present = backend.get_added_tokens_decoder()
    for id, token in sorted(_added_tokens(directory).items()):
        entry = AddedToken(**asdict(token))
        if repr(entry) != repr(present.get(id)):
            backend.add_tokens([entry])
        if (id_here := backend.token_to_id(token.content)) != id:
            raise CheckpointError(
                f"{directory}: {token.content!r} is added with id {id}, but {FILE} has {id_here} "
                "for it: the files are of two tokenizers"
            )
    new_texts = [text for text in _special_texts(directory) if backend.token_to_id(text) is None]
    backend.add_special_tokens([AddedToken(text, special=True) for text in new_texts])


def _added_tokens(directory: Path) -> dict[int, AddedText]:
    """The tokens of tokenizer_config.json by id, in older repositories of added_tokens.json."""
    settings, older = _settings(directory), directory / "added_tokens.json"
    if settings.get("added_tokens_decoder") is not None:
        by_id: dict[int, AddedText] = settings.read(
            "added_tokens_decoder", dict[TokenId, AddedText], {}
        )
        return by_id
    if not is_there(older):
        return {}
    ids = Block({"tokens": read_json(older)}, older).read("tokens", dict[TokenText, TokenId], {})
    special = {*_special_texts(directory)}
    return {
        id: AddedText(text, normalized=text not in special, special=text in special)
        for text, id in ids.items()
    }


def _special_texts(directory: Path) -> list[str]:
    """All special tokens, those with a role first."""
    settings = _settings(directory)
    keys = ("additional_special_tokens", "extra_special_tokens")
    lists = (settings.get(key) for key in keys)
    entries = (entry for entries in lists if isinstance(entries, list) for entry in entries)
    extra = (_content(entry, "token", settings.file) for entry in entries)
    return [*special_tokens(directory).values(), *filter(None, extra)]


def tokenizer_file(directory: Path) -> Path:
    """The file of a directory's tokenizer; raises CheckpointError if there is none."""
    for name in (FILE, OLDER_FILE):
        if is_there(directory / name):
            return directory / name
    raise CheckpointError(f"{directory} has no {FILE} and no {OLDER_FILE}")


def _settings(directory: Path) -> Block:
    """The content of tokenizer_config.json, merged with the files that other layouts use."""
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "processor_config.json", "tokenizer_config.json"):
        if is_there(directory / name):
            values = read_json(directory / name)
            extra = values.get("extra_special_tokens")
            settings |= extra if isinstance(extra, dict) else {}
            settings |= {key: value for key, value in values.items() if value is not None}
    return Block(settings, directory / "tokenizer_config.json")


def _content(token: object, key: str, file: Path) -> str | None:
    """A token's text, stored as a string or as an object with "content"; None for a setting."""
    content = token.get("content") if isinstance(token, dict) else token
    if not isinstance(content, str):
        return None
    text: str = Block({key: content}, file).read(key, TokenText, None)
    return text


def _convert(file: Path) -> "Backend":
    """Convert a sentencepiece model, the format before tokenizer.json."""
    try:
        from sentencepiece import SentencePieceProcessor
        from transformers import LlamaTokenizer

        with tokenizer_errors(file):  # damaged protocol buffers raise anything
            SentencePieceProcessor(model_file=str(file))  # says what is wrong; the next does not
            backend: Backend = LlamaTokenizer.from_pretrained(
                file.parent, local_files_only=True
            ).backend_tokenizer
    except ImportError as error:
        raise CheckpointError(
            f"{file} has to be converted: pip install transformers sentencepiece protobuf"
        ) from error
    return backend
