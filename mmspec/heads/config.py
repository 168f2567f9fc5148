"""What the config.json of a predictive head says: this project's own, EAGLE's or MSD's.

Shape letters: H width of the target, V its vocabulary, K slots, C queries.
"""

import pickletools
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mmspec.checkpoint import has_safetensors, read_tensors
from mmspec.config import CONFIG_FILE, ModelConfig, TextConfig, read_text
from mmspec.errors import CheckpointError, UsageError
from mmspec.jsonfile import Block, read_json

MODEL_TYPE = "mmspec_head"
"""The `model_type` of this project's own heads."""
PICKLE_FILE = "pytorch_model.bin"
"""Where published heads keep their tensors."""

LAYERED = ("eagle", "msd", "flash")
"""Kinds with a decoder layer, and so with a cache and positions."""
SLOTTED = ("medusa", "hydra", "flash")
"""Kinds with a fixed number of places to predict."""
KINDS = ("eagle", "msd", "medusa", "hydra", "flash")

VISION = ("none", "mean", "attention")
"""How image embeddings reach a Medusa or Hydra head besides the hidden state."""

_PUBLISHED = {"llava": "msd", "llama": "eagle", "qwen2": "eagle"}
"""The kind of a published head by the `model_type` of the target it was trained for."""
_FUSION = "fc.weight"
"""The tensor that tells a published head from a whole model of the same `model_type`."""


@dataclass(frozen=True)
class HeadConfig:
    """A head: its kind and its sizes."""

    kind: str
    """One of KINDS."""
    hidden_size: int
    """H."""
    vocab_size: int
    """V of the target it was trained for, at most that of the target it drafts for."""
    slots: int = 0
    """K, places predicted at most; 0 where the head steps on without end."""
    queries: int = 0
    """C, latents that stand for an image in FLASH; 0 keeps all of its positions."""
    vision: str = "none"
    """One of VISION."""
    bias: bool = True
    """Whether the fusion of embedding and hidden state has a bias."""
    qkv_bias: bool = False
    """Whether the layer's queries, keys and values have one."""
    input_norm: bool = False
    """Whether the layer normalises its input; EAGLE's and MSD's do not."""
    layer: TextConfig | None = None
    """The decoder layer's sizes; None for a kind without one."""
    dtype: str | None = None
    """What the file names, None where it names none."""

    @property
    def apart(self) -> bool:
        """Whether images are fed as something else than pairs (MSD; FLASH)."""
        return self.kind in ("msd", "flash")

    @property
    def positions(self) -> int | None:
        """Positions that the layer was trained for; None without a layer."""
        return self.layer.max_position_embeddings if self.layer else None

    def described(self) -> dict[str, Any]:
        """The config.json from which `read_head_config` reads this again."""
        said = {"model_type": MODEL_TYPE} | asdict(self)
        layer = said.pop("layer") or {}
        written = {name: layer[name] for name in _LAYER_SIZES if name in layer}
        return {name: value for name, value in (said | written).items() if value is not None}


_LAYER_SIZES = (
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_theta",
)


def is_head(directory: Path) -> bool:
    """Whether a checkpoint directory holds a head: by its config, or by its tensors' names.

    Raises CheckpointError where the files cannot be read.
    """
    if not (directory / CONFIG_FILE).exists():
        return False
    kind = read_json(directory / CONFIG_FILE).get("model_type")
    return kind == MODEL_TYPE or (kind in _PUBLISHED and _FUSION in stored_names(directory))


def stored_names(directory: Path) -> frozenset[str]:
    """Names of the tensors in safetensors files, else in a published head's pickle.

    A pickle is never executed: its strings are read.
    """
    if has_safetensors(directory):
        return frozenset(read_tensors(directory))
    file = directory / PICKLE_FILE
    return _strings(file) if file.exists() else frozenset()


def _strings(file: Path) -> frozenset[str]:
    try:
        with zipfile.ZipFile(file) as archive:
            inner = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            code = b"".join(archive.read(name) for name in inner[:1])
        return frozenset(word for _, word, _ in pickletools.genops(code) if isinstance(word, str))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{file} is not a file that torch.save wrote: {error}") from error


def read_head_config(directory: Path) -> HeadConfig:
    """Read a head's `config.json`.

    This project's own must say everything; a published one takes Llama's defaults where it is
    silent. Raises CheckpointError, naming file, key, value and what is allowed.
    """
    whole = Block(read_json(directory / CONFIG_FILE), directory / CONFIG_FILE)
    allowed = (MODEL_TYPE, *_PUBLISHED)
    if whole.only("model_type", allowed, None) == MODEL_TYPE:
        return _own(whole)
    return _published(whole, stored_names(directory))


def _own(whole: Block) -> HeadConfig:
    kind = whole.only("kind", KINDS, None)
    layered = kind in LAYERED
    for key in ("hidden_size", "vocab_size", *(_REQUIRED if layered else ())):
        if whole.get(key) is None:
            raise whole.error(key, "there")
    least = 1 if kind in SLOTTED else 0
    slots = whole.index("slots", 0)
    if slots < least or (slots and not least):
        raise whole.error("slots", "a positive integer" if least else "absent")
    return HeadConfig(
        kind=kind,
        hidden_size=whole.count("hidden_size", 0),
        vocab_size=whole.count("vocab_size", 0),
        slots=slots,
        queries=_queries(whole, kind),
        vision=whole.only("vision", VISION if kind in ("medusa", "hydra") else VISION[:1], "none"),
        bias=whole.only("bias", (True, False), True),
        qkv_bias=whole.only("qkv_bias", (False, True), False),
        input_norm=whole.only("input_norm", (False, True), kind == "flash"),
        layer=_layer(whole) if layered else None,
        dtype=_dtype(whole),
    )


_REQUIRED = ("intermediate_size", "num_attention_heads", "max_position_embeddings")


def _queries(whole: Block, kind: str) -> int:
    queries = whole.index("queries", 0)
    if queries < 0 or (queries and kind != "flash"):
        raise whole.error("queries", "0 or more" if kind == "flash" else "absent")
    return queries


def _published(whole: Block, names: frozenset[str]) -> HeadConfig:
    if "imadpt.q" in names:
        allowed = ", ".join(KINDS)
        raise CheckpointError(f"{whole.file}: ViSpec heads cannot be run: give one of {allowed}")
    whole.only("num_hidden_layers", (1,), 1)
    layer = _layer(whole)
    return HeadConfig(
        kind=_PUBLISHED[whole.get("model_type")],
        hidden_size=layer.hidden_size,
        vocab_size=layer.vocab_size,
        bias=whole.only("bias", (True, False), True),
        qkv_bias=whole.only("qkv_bias", (False, True), False),
        layer=layer,
        dtype=_dtype(whole),
    )


def _layer(whole: Block) -> TextConfig:
    """The one layer's sizes, as a Llama of a single layer has them."""
    return read_text(Block(whole.values | {"num_hidden_layers": 1}, whole.file, whole.path), False)


def _dtype(whole: Block) -> str | None:
    for key in ("dtype", "torch_dtype"):
        if whole.get(key) is not None:
            return str(whole.only(key, ("float32", "float16", "bfloat16"), None))
    return None


def require_fit(config: HeadConfig, target: ModelConfig, directory: Path) -> None:
    """Raise UsageError where a head was not made for a target of these sizes."""
    text = target.text
    if config.hidden_size != text.hidden_size or config.vocab_size > text.vocab_size:
        raise UsageError(
            f"{directory}: a head for a target of width {config.hidden_size} and "
            f"{config.vocab_size} tokens; this target has {text.hidden_size} and {text.vocab_size}:"
            " a head works with the target it was trained on alone"
        )
