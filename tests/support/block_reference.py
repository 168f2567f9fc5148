"""Block drafters computed by formulas alone: the whole context anew, no cache.

Shape letters: n columns of context, B block rows, H width, D head size, V vocabulary, r rank.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

TOKENS = 3
"""Drafted tokens of a block."""


def probabilities(reference: Any, drafted: list[int]) -> Tensor:
    """Probabilities [V] of the token after the drafted ones, with a vanilla Markov head or none."""
    config, tensors, embedding = reference.config, reference.tensors, reference.embeddings
    width, anchored = config["hidden_size"], config.get("sample_from_anchor", False)
    layers = [layer + 1 for layer in config["target_layer_ids"]]
    states = torch.cat([reference.layers[:-1, at * width :][:, :width] for at in layers], dim=-1)
    context = _normed(reference, "hidden_norm", states @ tensors["fc.weight"].T)
    table = reference.target.get_input_embeddings().weight
    masks = [table[config["mask_token_id"]]] * (TOKENS - anchored)
    x = torch.stack([embedding[-1], *masks])
    for index in range(config["num_hidden_layers"]):
        x = _layer(reference, f"layers.{index}", x, context)
    row = _normed(reference, "norm", x)[len(drafted) + (not anchored)]
    logits = reference.target.lm_head(row)
    if config.get("markov_rank"):
        before = [reference.tokens[-1], *drafted][-1]
        head = "markov_head.markov_w"
        logits = logits + tensors[f"{head}2.weight"] @ tensors[f"{head}1.weight"][before]
    return logits.softmax(-1)


def _layer(reference: Any, path: str, x: Tensor, context: Tensor) -> Tensor:
    tensors, size = reference.tensors, reference.config["head_dim"]
    heads, y = (
        reference.config["num_attention_heads"],
        _normed(reference, f"{path}.input_layernorm", x),
    )
    both = torch.cat((context, y))

    def projected(part: str, rows: Tensor) -> Tensor:
        weight = tensors[f"{path}.self_attn.{part}_proj.weight"]
        split = (rows @ weight.T).unflatten(-1, (-1, size)).transpose(0, 1)
        return split.repeat_interleave(heads // len(split), 0)

    def turned(part: str, rows: Tensor) -> Tensor:
        normed = _normed(reference, f"{path}.self_attn.{part}_norm", projected(part, rows))
        steps = reference.config["rope_theta"] ** -(torch.arange(size // 2) * 2 / size)
        angles = torch.arange(len(both) - len(rows), len(both))[:, None] * steps
        turn = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.complex(*(part.contiguous() for part in normed.chunk(2, dim=-1))) * turn
        return torch.cat((pairs.real, pairs.imag), dim=-1)

    shares = (turned("q", y) @ turned("k", both).mT / size**0.5).softmax(-1)
    attended = (shares @ projected("v", both)).transpose(0, 1).flatten(1)
    x = x + attended @ tensors[f"{path}.self_attn.o_proj.weight"].T
    y = _normed(reference, f"{path}.post_attention_layernorm", x)
    gate, up = (y @ tensors[f"{path}.mlp.{part}_proj.weight"].T for part in ("gate", "up"))
    return x + (F.silu(gate) * up) @ tensors[f"{path}.mlp.down_proj.weight"].T


def _normed(reference: Any, path: str, x: Tensor) -> Tensor:
    scale = (x**2).mean(-1, keepdim=True) + reference.config["rms_norm_eps"]
    return x / scale.sqrt() * reference.tensors[f"{path}.weight"]
