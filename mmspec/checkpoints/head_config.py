"""Reads the config.json of a predictive head: this project's own, or a published one's.

Shape letters: H width of the target, V its vocabulary, K predicted positions, C queries.
"""

import lzma
import pickletools
import zipfile
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mmspec.checkpoints import mtp
from mmspec.checkpoints.block_config import BLOCK_KINDS, BlockDraft, is_block, read_block
from mmspec.checkpoints.config import CONFIG_FILE, ModelConfig, read_dtype
from mmspec.checkpoints.eagle3_config import Eagle3, is_eagle3, read_eagle3
from mmspec.checkpoints.loading_plan import has_safetensors, read_tensors
from mmspec.families.decoder import TextConfig, Vocabulary, Width, describe_axes
from mmspec.families.text_families import read_llama
from mmspec.ground.errors import CheckpointError, UsageError
from mmspec.ground.input_files import is_there, open_file
from mmspec.ground.json_file import Block

MODEL_TYPE = "mmspec_head"
"""The `model_type` of this project's own heads."""

KINDS_WITH_LAYER = ("eagle", "eagle3", "msd", "vispec", "flash")
"""Kinds of head with a decoder layer, which needs a cache and positions."""
KINDS_WITH_SLOTS = ("medusa", "hydra", "flash")
"""Kinds of head with a fixed number of predicted positions."""
MOST_SLOTS, MOST_QUERIES = 1000, 10_000
"""The most predicted positions and latents of a head, far beyond any."""
KINDS = ("eagle", "eagle3", "msd", "vispec", "medusa", "hydra", "flash", *BLOCK_KINDS)

VISION = ("none", "mean")
"""How a Medusa head uses image embeddings in addition to the hidden state."""

PICKLE_FILE = "pytorch_model.bin"
"""File name of the tensors of published heads."""
PICKLE_BYTES = 1_000_000
"""The most bytes of a pickle that are read for names: a few hundred for each tensor."""

_KIND_BY_MODEL_TYPE = {
    "llava": "msd",
    "llama": "eagle",
    "qwen2": "eagle",
    "llava_next": "vispec",
    "qwen2_5_vl": "vispec",
}
"""The kind of a published head by the `model_type` of the target it was trained for."""
VIEW_QUERIES = "imadpt.q"
"""Tensor that only ViSpec's heads have, whatever their `model_type`."""
VIEWS = 2
"""Vectors that a published ViSpec head makes of an image; its config does not say."""
_FUSION = "fc.weight"
"""Tensor that distinguishes a published head from a whole model of the same `model_type`."""


@dataclass(frozen=True)
class HeadConfig:
    """The kind and the sizes of a head."""

    kind: str
    """The head's kind, one of KINDS."""
    hidden_size: int
    """H, the width of the target."""
    vocab_size: int
    """V, the vocabulary of the target it was trained for; a target in use may have a larger one."""
    slots: int = 0
    """K, the number of predicted positions; 0 if the head drafts autoregressively."""
    queries: int = 0
    """C, the number of vectors per image in FLASH and ViSpec; 0 uses all of its positions."""
    vision: str = "none"
    """How images are used in addition to the hidden state, one of VISION."""
    bias: bool = True
    """True if the linear layer that joins embedding and hidden state has a bias."""
    input_norm: bool = False
    """True if the decoder layer normalises its input; EAGLE's and MSD's do not."""
    layer: TextConfig | None = None
    """The decoder layer's sizes; None for a kind of head without one."""
    dtype: str | None = None
    """The dtype that the file names, or None."""
    eagle3: Eagle3 | None = None
    """What only an EAGLE-3 head has; None for other kinds."""
    block: BlockDraft | None = None
    """What only a block drafter has; None for other kinds."""

    @property
    def apart(self) -> bool:
        """True if images are fed in another form than pairs of embedding and hidden state."""
        return self.kind in ("eagle3", "msd", "vispec", "flash")

    @property
    def image_rows(self) -> int:
        """The number of rows that an image is packed into; ViSpec's last vector is no row."""
        return self.queries - 1 if self.kind == "vispec" else self.queries

    def captured_layers(self, target: ModelConfig) -> tuple[int, ...]:
        """The target's layers that the head reads beside the last; empty for most kinds."""
        if self.block:
            return self.block.captured_layers
        return self.eagle3.layers(target.text.num_hidden_layers) if self.eagle3 else ()

    @property
    def draft_vocab_size(self) -> int | None:
        """d, the number of tokens that the head can draft; None if it says no such number."""
        options = self.eagle3 or self.block
        return options.draft_vocab_size if options else None

    @property
    def positions(self) -> int | None:
        """Number of positions that the decoder layer was trained for; None without a layer."""
        return self.layer.max_position_embeddings if self.layer else None

    def to_config(self) -> dict[str, Any]:
        """The content of a config.json from which `read_head_config` reads this config."""
        values = {"model_type": MODEL_TYPE} | asdict(self)
        layer = values.pop("layer") or {}
        values |= {name: layer[name] for name in _LAYER_SIZES if name in layer}
        if self.eagle3:
            values |= self.eagle3.to_config() | {"eagle3": None, "qk_norm": layer["qk_norm"]}
        if self.block:
            count = {"num_hidden_layers": layer["num_hidden_layers"]}
            values |= self.block.to_config() | {"block": None, "slots": None} | count
        if (self.eagle3 or self.block) and layer["rotary_axes"]:
            values["rope_scaling"] = describe_axes(layer["rotary_axes"])
        return {name: value for name, value in values.items() if value is not None}


_LAYER_SIZES = (
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_theta",
    "qkv_bias",
)


_DAMAGES = EOFError, ValueError, KeyError, RuntimeError
_UNREADABLE = OSError, *_DAMAGES, zlib.error, lzma.LZMAError, zipfile.BadZipFile
"""Errors of reading a damaged archive: without a pickle, encrypted, cut."""


def stored_names(directory: Path) -> frozenset[str]:
    """The tensors' names in safetensors files, else a pickle's strings; it is never executed."""
    if has_safetensors(directory):
        return frozenset(read_tensors(directory))
    file = directory / PICKLE_FILE
    if not is_there(file):
        return frozenset()
    try:
        with open_file(file) as content, zipfile.ZipFile(content) as archive:
            inner = (name for name in archive.namelist() if name.endswith("/data.pkl"))
            with archive.open(next(inner, "data.pkl")) as stream:
                code = stream.read(PICKLE_BYTES)
        return frozenset(text for _, text, _ in pickletools.genops(code) if isinstance(text, str))
    except _UNREADABLE as error:
        raise CheckpointError(f"{file} is not a file that torch.save wrote: {error}") from error


def is_head(directory: Path) -> bool:
    """True for a head's directory, by config or tensors' names.  Raises CheckpointError."""
    if not is_there(directory / CONFIG_FILE):
        return False
    whole = Block.of(directory / CONFIG_FILE)
    kind: str = whole.read("model_type", str, "")
    if kind == MODEL_TYPE or is_block(whole) or is_eagle3(whole) or mtp.is_mtp(directory):
        return True
    return kind in _KIND_BY_MODEL_TYPE and _FUSION in stored_names(directory)


def read_head_config(directory: Path) -> HeadConfig:
    """Read a head's `config.json`; keys that a published head's lacks take Llama's defaults.

    Raises CheckpointError, naming file, key, value and what is allowed.
    """
    whole = Block.of(directory / CONFIG_FILE)
    if is_block(whole) or whole.get("kind") in BLOCK_KINDS:
        options, layers = read_block(whole)
        whole.only("kind", (options.kind,), options.kind)
        return _config_with_norm(whole, options.kind, layers, slots=options.slots, block=options)
    if whole.get("model_type") in mtp.MODEL_TYPES:
        return _config_with_norm(whole, mtp.KIND, mtp.read_mtp(whole))
    if is_eagle3(whole) or whole.get("kind") == "eagle3":
        eagle3, layer_ = read_eagle3(whole)
        return _config_with_norm(whole, "eagle3", layer_, eagle3=eagle3)
    return _first_generation(whole, directory)


def _first_generation(whole: Block, directory: Path) -> HeadConfig:
    """Read the config of a head whose layer's input is EAGLE's, or of one without a layer."""
    model = whole.only("model_type", (MODEL_TYPE, *_KIND_BY_MODEL_TYPE), None)
    if model == MODEL_TYPE:
        kind = whole.only("kind", KINDS, None)
        _require_keys(whole, kind)
    else:
        kind = "vispec" if VIEW_QUERIES in stored_names(directory) else _KIND_BY_MODEL_TYPE[model]
        whole.only("num_hidden_layers", (1,), 1)
    layer, fewest = None, VIEWS if kind == "vispec" else 0
    if kind in KINDS_WITH_LAYER:
        layer = read_llama(whole.with_values(num_hidden_layers=1))
        layer = replace(layer, qkv_bias=whole.flag("qkv_bias", False))
    return HeadConfig(
        kind=kind,
        hidden_size=layer.hidden_size if layer else whole.read("hidden_size", Width, 0),
        vocab_size=layer.vocab_size if layer else whole.read("vocab_size", Vocabulary, 0),
        slots=whole.integer("slots", 0, 0, MOST_SLOTS),
        queries=whole.integer("queries", fewest, fewest, MOST_QUERIES),
        vision=whole.only("vision", VISION if kind == "medusa" else VISION[:1], "none"),
        bias=whole.flag("bias", True),
        input_norm=whole.flag("input_norm", kind == "flash"),
        layer=layer,
        dtype=read_dtype(whole),
    )


def _config_with_norm(whole: Block, kind: str, layer: TextConfig, **fields: Any) -> HeadConfig:
    """The config of a head whose decoder layers normalise their input; fields: its others."""
    blocks = map(whole.block, ("transformer_layer_config", "text_config"))
    return HeadConfig(
        kind=kind,
        hidden_size=layer.hidden_size,
        vocab_size=layer.vocab_size,
        bias=False,
        input_norm=True,
        layer=layer,
        dtype=read_dtype(whole, *blocks),
        **fields,
    )


_LAYER_KEYS = ("intermediate_size", "num_attention_heads", "max_position_embeddings")


def _require_keys(whole: Block, kind: str) -> None:
    """Raise CheckpointError for a key of this project's format that is missing or misplaced."""
    for key in ("hidden_size", "vocab_size", *(_LAYER_KEYS if kind in KINDS_WITH_LAYER else ())):
        if whole.get(key) is None:
            raise whole.error(key, "there")
    if kind in KINDS_WITH_SLOTS:
        whole.integer("slots", 0, 1, MOST_SLOTS)
    elif whole.get("slots"):
        raise whole.error("slots", "absent")
    if whole.get("queries") and kind not in ("vispec", "flash"):
        raise whole.error("queries", "absent")


def require_fit(config: HeadConfig, target: ModelConfig, directory: Path) -> None:
    """Raise UsageError if a head's sizes do not match the target's."""
    text = target.text
    if config.hidden_size != text.hidden_size or config.vocab_size > text.vocab_size:
        raise UsageError(
            f"{directory}: a head for a target of width {config.hidden_size} and "
            f"{config.vocab_size} tokens; this target has {text.hidden_size} and {text.vocab_size}:"
            " a head works with the target it was trained on alone"
        )
    layers, total = config.captured_layers(target), text.num_hidden_layers
    if list(layers) != [layer for layer in range(total + 1) if layer in layers]:
        raise UsageError(
            f"{directory}: a head that reads layers {list(layers)} of its target; this target has "
            f"{total}: a head works with the target it was trained on alone"
        )
