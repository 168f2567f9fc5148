"""A draft to train: a Llama, and for one that sees a projector on the target's vision features.

Shape letters: B sequences, S columns, M images, P positions of one image, D width of the tower,
H width, n learned columns, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from mmspec.checkpoint import plan
from mmspec.config import ModelConfig, TextConfig, read_config
from mmspec.errors import UsageError
from mmspec_torch.train import attention
from mmspec_torch.train.drafts.seats import Seats
from mmspec_torch.weights import read_tensor

INNER = "language_model."
PROJECTOR = "multi_modal_projector."


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a Llama; those of the proposal's 115M by default."""

    layers: int = 4
    width: int = 1024
    heads: int = 8
    inner: int = 2816
    positions: int = 2048

    def text(self, target: ModelConfig) -> TextConfig:
        """A decoder of this shape with a target's vocabulary.

        Raises UsageError where the width cannot be divided among the heads.
        """
        if self.width % self.heads or self.width // self.heads % 2:
            raise UsageError(
                f"{self.width} columns cannot be divided among {self.heads} heads: give a width "
                "that is an even multiple of the heads"
            )
        return TextConfig(
            hidden_size=self.width,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.heads,
            head_dim=self.width // self.heads,
            vocab_size=target.text.vocab_size,
            max_position_embeddings=self.positions,
            rms_norm_eps=1e-6,
            rope_theta=10000.0,
            tie_word_embeddings=True,
        )


class Projector(nn.Module):
    """LLaVA-1.5's: two linear layers with an exact GELU between."""

    def __init__(self, features: int, width: int) -> None:
        """From features' width to a model's."""
        super().__init__()
        self.linear_1 = nn.Linear(features, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, features: Tensor) -> Tensor:
        """Project [..., D] to [..., H]."""
        projected: Tensor = self.linear_2(F.gelu(self.linear_1(features)))
        return projected


class Student(nn.Module):
    """A draft under training."""

    def __init__(self, text: TextConfig, features: int = 0, positions: int = 0) -> None:
        """Build it with random weights; `features` is D, and 0 for one that sees nothing.

        positions: P, of one image.
        """
        super().__init__()
        self.text, self.positions = text, positions
        self.llama = LlamaForCausalLM(llama_config(text))
        self.llama.set_attn_implementation(attention.NAME)
        self.projector = Projector(features, text.hidden_size) if features else None

    @property
    def sees(self) -> bool:
        """Whether it is shown images."""
        return self.projector is not None

    def forward(self, seats: Seats, features: Sequence[Tensor]) -> Tensor:
        """Hidden states [B, S, H] after the last norm; features are M of [P, D], in order."""
        x = self.llama.model.embed_tokens(seats.ids)
        if self.projector is not None and features:
            seen = self.projector(torch.stack(list(features))).flatten(0, 1)
            x = x.masked_scatter(seats.places.unsqueeze(-1), seen.to(x.dtype))
        states: Tensor = self.llama.model(inputs_embeds=x, use_cache=False).last_hidden_state
        return states

    def said(self, states: Tensor) -> Tensor:
        """Log-probabilities [n, V] of states [n, H]."""
        logits: Tensor = self.llama.lm_head(states)
        return logits.float().log_softmax(dim=-1)


def llama_config(text: TextConfig) -> LlamaConfig:
    """The config as transformers has it."""
    return LlamaConfig(
        vocab_size=text.vocab_size,
        hidden_size=text.hidden_size,
        intermediate_size=text.intermediate_size,
        num_hidden_layers=text.num_hidden_layers,
        num_attention_heads=text.num_attention_heads,
        num_key_value_heads=text.num_key_value_heads,
        head_dim=text.head_dim,
        max_position_embeddings=text.max_position_embeddings,
        rms_norm_eps=text.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": text.rope_theta},
        tie_word_embeddings=text.tie_word_embeddings,
    )


def untrained(text: TextConfig, seed: int, features: int = 0, positions: int = 0) -> Student:
    """Build a draft with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    return Student(text, features, positions)


def read_student(directory: Path, target: ModelConfig, positions: int) -> Student:
    """Read a Llama or LLaVA checkpoint as a draft to train, an image in P = `positions`.

    Raises CheckpointError as loading does, and UsageError where its vocabulary is not the target's.
    """
    config = read_config(directory)
    if config.text.vocab_size != target.text.vocab_size:
        raise UsageError(
            f"{directory} has {config.text.vocab_size} tokens, the target "
            f"{target.text.vocab_size}: a draft must have the target's vocabulary"
        )
    features = config.vision.hidden_size if config.vision else 0
    student = Student(config.text, features, positions if features else 0)
    sources = plan(directory, config)
    stored = {
        _inside(name): read_tensor(source, torch.float32)
        for name, source in sources.items()
        if not name.startswith("vision_tower.")
    }
    if config.text.tie_word_embeddings:
        stored["llama.lm_head.weight"] = stored["llama.model.embed_tokens.weight"]
    student.load_state_dict(stored)
    return student


def _inside(name: str) -> str:
    """Where a tensor of a canonical name is in a student."""
    if name.startswith(INNER):
        return "llama.model." + name.removeprefix(INNER)
    if name.startswith(PROJECTOR):
        return "projector." + name.removeprefix(PROJECTOR)
    return "llama." + name


def canonical_tensors(student: Student) -> dict[str, Tensor]:
    """A student's tensors by canonical name, a tied output matrix left out."""
    found = student.state_dict()
    if student.text.tie_word_embeddings:
        del found["llama.lm_head.weight"]
    return {_outside(name): tensor for name, tensor in found.items()}


def _outside(name: str) -> str:
    if name.startswith("llama.model."):
        return INNER + name.removeprefix("llama.model.")
    if name.startswith("projector."):
        return PROJECTOR + name.removeprefix("projector.")
    return name.removeprefix("llama.")
