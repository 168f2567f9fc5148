"""Reads a checkpoint's config.json as transformers does; each family reads its own keys."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from mmspec.families.decoder import TextConfig, TokenId
from mmspec.families.family import Family, Vision
from mmspec.families.known import family_of
from mmspec.ground.input_files import is_there
from mmspec.ground.json_file import Block, read_json

CONFIG_FILE = "config.json"


@dataclass(frozen=True)
class Quantization:
    """MLX's affine quantization: one scale and one bias for each group of a weight's inputs."""

    bits: Literal[2, 3, 4, 5, 6, 8]
    group_size: Literal[32, 64, 128]
    by_path: "dict[str, Quantization]" = field(default_factory=dict)
    """The settings of layers that have their own, by their names in files."""

    def of(self, name: str) -> "Quantization":
        """The settings of the weight that is stored under `name`."""
        return self.by_path.get(name.removesuffix(".weight"), self)


@dataclass(frozen=True)
class ModelConfig:
    """Config of a decoder and, if it sees images, its tower; `dtype`: the type in config.json."""

    family: Family
    text: TextConfig
    quantization: Quantization | None
    eos_token_ids: tuple[int, ...]
    dtype: str | None
    vision: Vision | None = None
    image_token_id: int | None = None

    @property
    def image_id(self) -> int | None:
        """The token whose embedding is read at images; the nearest one, if it has none itself."""
        token = self.image_token_id
        return None if token is None else min(max(token, 0), self.text.vocab_size - 1)

    @property
    def image_tokens(self) -> int:
        """Number of positions of an image of the tower's own size; 0 for a text-only model."""
        if self.vision is None:
            return 0
        side = self.vision.image_size
        return self.vision.grid(side, side).positions


def read_config(directory: Path) -> ModelConfig:
    """Read `config.json` (and the stop tokens of `generation_config.json`) in `directory`.

    Absent keys take transformers' defaults, which the hub's short LLaVA-1.5 files rely on. Raises
    CheckpointError, naming file, key, value and what is allowed, for what no family computes.
    """
    file = directory / CONFIG_FILE
    return config_of(read_json(file), file)


def config_of(values: dict[str, Any], file: Path) -> ModelConfig:
    """The config that a config.json with these values means; errors call it `file`."""
    whole = Block(values, file)
    family = family_of(whole)
    content = family.read(whole)
    return ModelConfig(
        family=family,
        text=content.text,
        quantization=read_quantization(whole),
        eos_token_ids=_stop_tokens((content.block, whole), file.parent, family.stop_tokens),
        dtype=read_dtype(whole, content.block),
        vision=content.vision,
        image_token_id=content.image_token_id,
    )


def model_type(directory: Path) -> str:
    """The `model_type` in `config.json`, supported or not."""
    return str(read_json(directory / CONFIG_FILE).get("model_type"))


def read_quantization(whole: Block) -> Quantization | None:
    """MLX's quantization in a config.json; raises CheckpointError for other methods."""
    key = "quantization" if whole.get("quantization") is not None else "quantization_config"
    if whole.get(key) is None:
        return None
    block = whole.block(key)
    if block.get("quant_method") is not None:
        raise block.error("quant_method", "absent: MLX's affine quantization has none")
    names = [name for name, value in block.values.items() if isinstance(value, dict)]
    by_path = {name: _affine(block.block(name)) for name in names}
    return replace(_affine(block), by_path=by_path)


def _affine(block: Block) -> Quantization:
    block.only("mode", ("affine",), "affine")
    return block.record(Quantization, bits=4, group_size=64, by_path={})


def _stop_tokens(
    blocks: Sequence[Block], directory: Path, default: tuple[int, ...]
) -> tuple[int, ...]:
    """Those that generation_config.json names, else the first of `blocks` that names any."""
    file, key = directory / "generation_config.json", "eos_token_id"
    for block in (*([Block.of(file)] if is_there(file) else ()), *blocks):
        if isinstance(block.get(key), list):
            ids: tuple[int, ...] = block.read(key, tuple[TokenId, ...], ())
            return ids
        if block.get(key) is not None:
            return (block.read(key, TokenId, None),)
    return default


def read_dtype(*blocks: Block) -> str | None:
    """The first dtype named in `blocks`, under transformers 5's key or the older one."""
    for block in blocks:
        for key in ("dtype", "torch_dtype"):
            if block.get(key) is not None:
                return str(block.only(key, ("float32", "float16", "bfloat16"), None))
    return None
