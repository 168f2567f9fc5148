"""A draft to train: a Llama, and for vision a projector of the target's vision features.

Shape letters: B sequences, S columns, M images, P positions of one image, D width of the tower,
H width, n learned columns, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel

from mmspec.checkpoints.config import ModelConfig, TextConfig, read_config
from mmspec.checkpoints.loading_plan import plan
from mmspec.errors import UsageError
from mmspec_torch.weights import read_tensor
from mmspec_train.drafts.draft_columns import DraftColumns
from mmspec_train.mini.build import ATTENTION
from mmspec_train.settings import LlamaShape


def llama_of_shape(shape: LlamaShape, target: ModelConfig) -> TextConfig:
    """Return the config of a Llama with a target's vocabulary.

    Raises UsageError if the width is not an even multiple of the heads.
    """
    if shape.width % shape.heads or shape.width // shape.heads % 2:
        raise UsageError(
            f"{shape.width} columns cannot be divided among {shape.heads} heads: give a width "
            "that is an even multiple of the heads"
        )
    return TextConfig(
        hidden_size=shape.width,
        intermediate_size=shape.ffn,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.width // shape.heads,
        vocab_size=target.text.vocab_size,
        max_position_embeddings=shape.positions,
        rms_norm_eps=1e-6,
        rope_theta=10000.0,
        tie_word_embeddings=True,
    )


class Projector(nn.Module):
    """LLaVA-1.5's projector: two linear layers with an exact GELU between them."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(features, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, features: Tensor) -> Tensor:
        """Project features [..., D] to embeddings [..., H]."""
        projected: Tensor = self.linear_2(F.gelu(self.linear_1(features)))
        return projected


class DraftModel(nn.Module):
    """A Llama and, for a draft with vision, a projector; tensors have their canonical names."""

    def __init__(self, text: TextConfig, features: int = 0, positions: int = 0) -> None:
        """Build random weights; `features` is D, or 0 for a text-only draft, `positions` is P."""
        super().__init__()
        self.text, self.positions = text, positions
        self.language_model = LlamaModel(llama_config(text))
        self.language_model.set_attn_implementation(ATTENTION)
        self.lm_head = nn.Linear(text.hidden_size, text.vocab_size, bias=False)
        if text.tie_word_embeddings:
            self.lm_head.weight = self.language_model.embed_tokens.weight
        self.multi_modal_projector = Projector(features, text.hidden_size) if features else None

    @property
    def sees(self) -> bool:
        """True if the draft reads images."""
        return self.multi_modal_projector is not None

    @property
    def text_parts(self) -> list[nn.Module]:
        """The modules of the Llama; a tied output matrix is part of the first."""
        tied = self.text.tie_word_embeddings
        return [self.language_model] if tied else [self.language_model, self.lm_head]

    def copy_text(self, other: "DraftModel") -> None:
        """Copy the weights of the other draft's Llama, which has the same shape."""
        for own, copied in zip(self.text_parts, other.text_parts, strict=True):
            own.load_state_dict(copied.state_dict())

    def forward(self, columns: DraftColumns, features: Sequence[Tensor]) -> Tensor:
        """Return states [B, S, H] after the last norm; `features` has [P, D] for each image."""
        x = self.language_model.embed_tokens(columns.ids)
        if self.multi_modal_projector is not None and features:
            images = self.multi_modal_projector(torch.stack(list(features))).flatten(0, 1)
            x = x.masked_scatter(columns.visual.unsqueeze(-1), images.to(x.dtype))
        states: Tensor = self.language_model(inputs_embeds=x, use_cache=False).last_hidden_state
        return states

    def log_probabilities(self, states: Tensor) -> Tensor:
        """Return the log-probabilities [n, V] of states [n, H]."""
        logits: Tensor = self.lm_head(states)
        return logits.float().log_softmax(dim=-1)


def llama_config(text: TextConfig) -> LlamaConfig:
    """Return the config as transformers' LlamaConfig."""
    sizes = asdict(text)
    rope = {"rope_type": "default", "rope_theta": sizes.pop("rope_theta")}
    return LlamaConfig(**sizes, rope_parameters=rope)


def untrained_draft(
    text: TextConfig, seed: int, features: int = 0, positions: int = 0
) -> DraftModel:
    """Build a draft with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    return DraftModel(text, features, positions)


def read_draft(directory: Path, target: ModelConfig, positions: int) -> DraftModel:
    """Read a Llama or LLaVA checkpoint as a draft to train; an image takes P = `positions`.

    Raises CheckpointError as loading does, and UsageError if its vocabulary size differs from the
    target's.
    """
    config = read_config(directory)
    if config.text.vocab_size != target.text.vocab_size:
        raise UsageError(
            f"{directory} has {config.text.vocab_size} tokens, the target "
            f"{target.text.vocab_size}: a draft must have the target's vocabulary"
        )
    features = config.vision.hidden_size if config.vision else 0
    model = DraftModel(config.text, features, positions if features else 0)
    tensors = {
        name: read_tensor(source, torch.float32)
        for name, source in plan(directory, config).items()
        if not name.startswith("vision_tower.")
    }
    if config.text.tie_word_embeddings:
        tensors["lm_head.weight"] = tensors["language_model.embed_tokens.weight"]
    model.load_state_dict(tensors)
    return model
