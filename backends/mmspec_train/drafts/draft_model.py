"""A draft to train: a Llama, and for vision a projector; reading and writing its checkpoint.

In the draft an image takes fewer columns than in the target. A draft with vision gets an exact copy
of the target's tower, so that decoding computes an image's features once for both.

Shape letters: B sequences, S columns of the draft, P positions of one image, D width of the tower,
H width, n rows, V vocabulary.
"""

import json
import shutil
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaModel

from mmspec.checkpoints.config import CONFIG_FILE, ModelConfig, read_config
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE, plan
from mmspec.checkpoints.manifest import TOWER, hub_name
from mmspec.checkpoints.stored_config import stored_config
from mmspec.drafters.views import pooled_positions
from mmspec.families.decoder import TextConfig
from mmspec.families.text_families import LLAMA
from mmspec.families.tower import rename
from mmspec.ground.errors import UsageError
from mmspec.ground.json_file import read_json
from mmspec.ground.output_files import make_directory, replace_file, replace_text
from mmspec_torch.device.tensor_files import save_tensors
from mmspec_torch.device.weights import read_tensor
from mmspec_train.data.batch import Batch
from mmspec_train.llama import ATTENTION, llama_config

VOCABULARY_MATRICES = ("language_model.embed_tokens.weight", "lm_head.weight")
"""Canonical names of the matrices [V, H] with a row for each token."""


def projector(features: int, width: int) -> nn.Sequential:
    """Return LLaVA-1.5's projector from features [..., D] to embeddings [..., H]."""
    first, second = nn.Linear(features, width), nn.Linear(width, width)
    return nn.Sequential(OrderedDict(linear_1=first, act=nn.GELU(), linear_2=second))


class DraftModel(nn.Module):
    """A Llama and, for a draft with vision, a projector; tensors have their canonical names."""

    def __init__(self, text: TextConfig, seed: int, features: int = 0, positions: int = 0) -> None:
        """Build random weights, the same for the same seed.

        features: D, or 0 for a text-only draft.  positions: P.
        """
        super().__init__()
        torch.manual_seed(seed)
        self.text, self.positions = text, positions
        self.language_model = LlamaModel(llama_config(text))
        self.language_model.set_attn_implementation(ATTENTION)
        self.lm_head = nn.Linear(text.hidden_size, text.vocab_size, bias=False)
        if text.tie_word_embeddings:
            self.lm_head.weight = self.language_model.embed_tokens.weight
        self.multi_modal_projector = projector(features, text.hidden_size) if features else None

    @property
    def sees(self) -> bool:
        """True if the draft reads images."""
        return self.multi_modal_projector is not None

    def forward(self, columns: Batch, features: Sequence[Tensor]) -> Tensor:
        """Return states [B, S, H] after the last norm of a batch in the draft's own columns.

        features: [P, D] of each image.
        """
        x = self.language_model.embed_tokens(columns.ids)
        if self.multi_modal_projector is not None and features:
            images = self.multi_modal_projector(torch.stack(list(features))).flatten(0, 1)
            x = x.masked_scatter(columns.visual.unsqueeze(-1), images.to(x.dtype))
        states: Tensor = self.language_model(inputs_embeds=x, use_cache=False).last_hidden_state
        return states


def image_positions(target: ModelConfig, pool: int | None) -> int:
    """Return an image's position count: `pool`, or the target's if None.  Raises UsageError."""
    return target.image_tokens if pool is None else pooled_positions(target, pool)


def read_draft(
    directory: Path, target: ModelConfig, pool: int | None, sees: bool | None = None, seed: int = 0
) -> DraftModel:
    """Read a Llama or LLaVA checkpoint as a draft to train.

    pool: P, the positions of an image; None: as in the target.
    sees: True for a draft with vision, False for one without; None: as the checkpoint. A
    projector that the checkpoint lacks is random, the same for the same seed. Tokens that it lacks
    get the mean of its embeddings, and its tower the target's weights. Raises CheckpointError as
    loading does, and UsageError if it has more tokens than the target or another kind of tower.
    """
    config, positions = stored_config(directory), image_positions(target, pool)
    if config.family.model_type not in ("llama", "llava"):
        raise UsageError(
            f"{directory} is a {config.family.model_type}: llama and llava are trained as drafts; "
            "train a head for the target, as with --kind eagle3"
        )
    missing = target.text.vocab_size - config.text.vocab_size
    if missing < 0:
        raise UsageError(
            f"{directory} has {config.text.vocab_size} tokens, the target "
            f"{target.text.vocab_size}: a draft has at most the target's tokens"
        )
    sees = bool(config.vision) if sees is None else sees
    if sees and config.vision and config.vision != target.vision:
        raise UsageError(
            f"{directory} has another vision tower than the target: make a draft on the target's "
            "with `mmspec train draft --only llava`"
        )
    text = replace(config.text, vocab_size=target.text.vocab_size)
    features = target.vision.hidden_size if sees and target.vision else 0
    model = DraftModel(text, seed, features, positions if features else 0)
    weights = model.state_dict()
    sources = plan(directory, config).items()
    weights |= {n: read_tensor(source, torch.float32) for n, source in sources if n in weights}
    for name in VOCABULARY_MATRICES if missing else ():
        mean = weights[name].mean(dim=0, keepdim=True)
        weights[name] = torch.cat((weights[name], mean.expand(missing, -1)))
    if text.tie_word_embeddings:
        weights["lm_head.weight"] = weights["language_model.embed_tokens.weight"]
    model.load_state_dict(weights)
    return model


DTYPE = "float16"
TOWER_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16}
"""Types in which the target's tower is stored unchanged; other types become float16."""
QUANTIZATION_KEYS = ("quantization", "quantization_config")
TEXT_FILES = ("tokenizer*", "special_tokens_map.json", "chat_template*", "generation_config.json")
VISION_FILES = ("preprocessor_config.json", "processor_config.json")


def save_draft(model: DraftModel, target: Path, directory: Path) -> None:
    """Write `model`, a draft for the checkpoint `target`, to `directory` in float16."""
    make_directory(directory)
    for pattern in (*TEXT_FILES, *(VISION_FILES if model.sees else ())):
        for file in target.glob(pattern):
            with replace_file(directory / file.name) as partial:
                shutil.copyfile(file, partial)
    weights = model.state_dict()
    if model.text.tie_word_embeddings:
        del weights["lm_head.weight"]
    prefixes = (read_config(target).family if model.sees else LLAMA).hub_prefixes
    tensors = {rename(name, prefixes): tensor.half() for name, tensor in weights.items()}
    if model.sees:
        tensors |= read_tower(target)
    save_tensors(directory / WEIGHTS_FILE, tensors)
    # The config comes last: without it the directory is no model.
    replace_text(directory / CONFIG_FILE, json.dumps(_config(model, target), indent=2) + "\n")


def read_tower(target: Path) -> dict[str, Tensor]:
    """Return a checkpoint's whole vision tower, by the hub's tensor names."""
    config = read_config(target)
    sources = {n: s for n, s in plan(target, config, whole=True).items() if n.startswith(TOWER)}
    dtypes = {n: TOWER_DTYPES.get(s.tensor.dtype, torch.float16) for n, s in sources.items()}
    return {hub_name(n, config): read_tensor(s, dtypes[n]) for n, s in sources.items()}


def _config(model: DraftModel, target: Path) -> dict[str, Any]:
    text = llama_config(model.text).to_dict()
    if not model.sees:
        return text | {"architectures": ["LlamaForCausalLM"], "dtype": DTYPE}
    config = read_json(target / CONFIG_FILE).items()
    is_tied = model.text.tie_word_embeddings
    own = {"text_config": text, "dtype": DTYPE, "tie_word_embeddings": is_tied}
    return {key: value for key, value in config if key not in QUANTIZATION_KEYS} | own
