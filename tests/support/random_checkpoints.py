"""Checkpoints of random weights in bfloat16, in the format and the sizes of real ones.

    python tests/support/random_checkpoints.py DIR NAME...

writes the pairs NAME of `shapes.toml` to DIR/NAME/target and DIR/NAME/draft, except those there.
"""

import json
import sys
import tomllib
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from mmspec.checkpoints.config import CONFIG_FILE, read_config
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE
from mmspec.checkpoints.manifest import hub_name, manifest
from mmspec.ground.output_files import new_directory

Config = dict[str, Any]

TABLES = tomllib.loads(Path(__file__).with_name("shapes.toml").read_text(encoding="utf-8"))
DRAWS = 16_777_213
"""Number of normal draws that all tensors share: a prime, so that a matrix's rows differ."""
SPECIAL = ("<unk>", "<s>", "</s>")


def text(name: str) -> Config:
    """The config of a language model in `shapes.toml`."""
    return _config("texts", name)


def _config(kind: str, name: str) -> Config:
    entries = TABLES[kind][name]
    base = _config(kind, entries["base"]) if "base" in entries else {}
    return base | {key: value for key, value in entries.items() if key != "base"}


def llava(
    text: Config, dtype: str = "float16", *, tower: str = "clip-large", image: int = 32000
) -> Config:
    """A LLaVA-1.5 config as in the hub's files; `image` is the image token's id."""
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "image_token_index": image,
        "model_type": "llava",
        "pad_token_id": image + 1,
        "projector_hidden_act": "gelu",
        "text_config": text,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "vision_config": _config("towers", tower),
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
        "vocab_size": text["vocab_size"],
    }


def write_pair(name: str, directory: Path) -> tuple[Path, Path]:
    """The target and the draft of pair `name` below `directory`, written unless they are there."""
    pair = dict(TABLES["pairs"][name])
    configs = {role: pair.pop(role) for role in ("target", "draft")}
    for role, config in configs.items():
        if not (place := directory / name / role).exists():
            with new_directory(place) as partial:
                _write(partial, llava(text(config), "bfloat16", **pair))
    return directory / name / "target", directory / name / "draft"


def _write(directory: Path, config: Config) -> None:
    side, image = config["vision_config"]["image_size"], config["image_token_index"]
    sizes = {"size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}}
    preprocessor = {"image_processor_type": "CLIPImageProcessor"} | sizes
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    settings = names | {"image_token": "<image>", "tokenizer_class": "PreTrainedTokenizerFast"}
    for file, content in (
        (CONFIG_FILE, config),
        ("preprocessor_config.json", preprocessor),
        ("tokenizer_config.json", settings),
    ):
        (directory / file).write_text(json.dumps(content, indent=2), encoding="utf-8")
    (directory / "tokenizer.json").write_text(tokenizer(image), encoding="utf-8")
    parsed = read_config(directory)
    write_weights(directory, {hub_name(n, parsed): s for n, s in manifest(parsed).items()})


def tokenizer(image: int) -> str:
    """A tokenizer with one token per byte; `<image>` is id `image`, `<pad>` the next.

    Ids between the bytes' and these have text, but no text is encoded to them.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    words = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    words += [f"<filler {number}>" for number in range(image - len(words))]
    vocabulary = {token: id for id, token in enumerate(words)}
    built = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=SPECIAL[0]))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens([*SPECIAL, "<image>", "<pad>"])
    built.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", SPECIAL.index("<s>"))]
    )
    return built.to_str(pretty=True)


def write_weights(directory: Path, tensors: dict[str, tuple[int, ...]]) -> None:
    """Write `model.safetensors` of tensors by name and shape, piece by piece.

    Matrices preserve the scale of their input, norm weights are one, and vectors are small.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors.items():
        start, end = end, end + 2 * prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    described = json.dumps(header).encode()
    described += b" " * (-len(described) % 8)
    with (directory / WEIGHTS_FILE).open("wb") as stream:
        stream.write(len(described).to_bytes(8, "little") + described)
        for name, shape in tensors.items():
            module, _, kind = name.rpartition(".")
            norm = kind == "weight" and "norm" in module.rpartition(".")[2]
            spread = 0.02 if len(shape) == 1 else prod(shape[1:]) ** -0.5
            values = _bfloat16(np.ones(DRAWS, np.float32)) if norm else _drawn(spread)
            left, start = prod(shape), crc32(name.encode()) % DRAWS
            while left:
                piece = values[start : start + left]
                stream.write(piece.data)
                left, start = left - len(piece), 0


@lru_cache(maxsize=16)
def _drawn(spread: float) -> Any:
    """DRAWS normal draws times `spread`, in bfloat16."""
    draws = np.random.default_rng(0).standard_normal(DRAWS, dtype=np.float32)
    return _bfloat16(draws * np.float32(spread))


def _bfloat16(values: Any) -> Any:
    """The upper halves of float32 numbers, rounded to nearest."""
    return ((values.view(np.uint32) + np.uint32(0x8000)) >> np.uint32(16)).astype(np.uint16)


if __name__ == "__main__":
    if len(sys.argv) < 3 or not TABLES["pairs"].keys() >= {*sys.argv[2:]}:
        sys.exit(f"{__doc__}\nNames: {', '.join(TABLES['pairs'])}")
    for pair in sys.argv[2:]:
        write_pair(pair, Path(sys.argv[1]))
