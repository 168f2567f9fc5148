"""Files of all kinds that are damaged, by name; models and heads."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mmspec.chat.engine import load
from support.damage import core_files
from support.damage.core_files import OPTIONS, TEXT, picture


@dataclass(frozen=True)
class Subject:
    """Files of one kind: written by `make`, read by `use`, which is told the damaged file."""

    use: Callable[[Path, str], object]
    """Uses the folder of a file on a backend."""
    files: tuple[str, ...]
    """Names of those that are damaged."""
    make: Callable[[Path], object] | None = None
    """None for files that need a fixture."""


def use_model(file: Path, backend: str) -> None:
    """Load a checkpoint and answer a question about a picture."""
    engine = load(str(file.parent), "none", backend=backend, device="cpu", dtype="float32")
    engine.chat(OPTIONS).reply(TEXT, [picture()])


def use_head(file: Path, backend: str, target: str = "llava") -> None:
    """Load a head for another subject's checkpoint and draft with it."""
    source = file.parents[2] / target / "source"
    engine = load(str(source), str(file.parent), backend=backend, device="cpu")
    engine.chat(OPTIONS).reply(TEXT, [picture()])


WEIGHTS = ("model.safetensors",) * 8
CONFIGS = ("config.json",) * 4
TEXTS = (
    *("tokenizer.json",) * 2,
    *("tokenizer_config.json", "preprocessor_config.json", "chat_template.json"),
)
HEAD = ("config.json", "model.safetensors")
SHARDS = ("model-00001-of-00002.safetensors", "model.safetensors.index.json")

CORE = {
    "images": Subject(core_files.use_picture, core_files.IMAGES, core_files.make_images),
    "clips": Subject(core_files.use_clip, tuple(core_files.CODECS), core_files.make_clips),
    "conversations": Subject(
        core_files.use_conversation, ("kept.json",) * 4 + ("a.png",), core_files.make_conversation
    ),
    "tokenizers": Subject(
        core_files.use_tokenizer, core_files.tokenizer_files(), core_files.make_tokenizers
    ),
    "sentencepiece": Subject(
        core_files.use_tokenizer, core_files.SENTENCEPIECE, core_files.make_sentencepiece
    ),
}
"""What others write and no backend reads; unit tests list what is wrong with our own files."""
MODELS = {
    "llava": Subject(use_model, (*CONFIGS, *TEXTS, *WEIGHTS)),
    "qwen": Subject(use_model, (*CONFIGS, *TEXTS, *WEIGHTS)),
    "qwen2_5_vl": Subject(use_model, (*CONFIGS, *TEXTS, *WEIGHTS)),
    "sharded": Subject(use_model, SHARDS),
    "mlx4": Subject(use_model, ("config.json", *WEIGHTS[:3])),
    "eagle": Subject(use_head, HEAD),
    "flash": Subject(use_head, HEAD),
    "eagle3": Subject(use_head, HEAD),
    "vispec": Subject(use_head, HEAD),
    "mrope": Subject(partial(use_head, target="qwen2_5_vl"), HEAD),
}
"""What each backend reads."""
PICKLES = {"pickle": Subject(use_head, ("config.json", *("pytorch_model.bin",) * 2))}
"""What PyTorch alone reads."""
SUBJECTS = CORE | MODELS | PICKLES
