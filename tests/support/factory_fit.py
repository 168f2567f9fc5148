"""Makes random heads right sometimes: their first step fitted to a target by least squares."""

from pathlib import Path
from typing import Any

import numpy as np


def fit_head(head: Path, target: Path) -> Path:
    """Fit a head's first step to hidden states of the target in `target`; returns `head`.

    A line from a token's embedding and the state before it to the state after it.
    """
    from safetensors.torch import load_file, save_file

    tensors = load_file(head / "model.safetensors")
    weight, bias = _line(*_columns(target))
    if "fc.weight" in tensors:
        _fit_layered(tensors, weight, bias)
    elif "heads.0.linear_1.weight" in tensors:
        _fit_hydra(tensors, weight, bias)
    for name in (name for name in tensors if name.startswith("vision.")):
        tensors[name] *= 0.05
    save_file(tensors, head / "model.safetensors", metadata={"format": "pt"})
    return head


def _columns(target: Path) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings and hidden states [n, H] of random text, by transformers."""
    import torch
    from transformers import LlavaForConditionalGeneration

    model = LlavaForConditionalGeneration.from_pretrained(target, dtype=torch.float32).eval()
    ids = torch.tensor(np.random.default_rng(0).integers(4, 312, (4, 250)))
    with torch.inference_mode():
        states = model.model.language_model(input_ids=ids).last_hidden_state
        embeddings = model.get_input_embeddings()(ids)
    return embeddings.double().numpy(), states.double().numpy()


def _line(embeddings: np.ndarray, states: np.ndarray) -> tuple[Any, Any]:
    import torch

    before = np.concatenate([embeddings[:, 1:], states[:, :-1]], axis=-1)
    known = np.concatenate([before, np.ones_like(before[..., :1])], axis=-1)
    width = known.shape[-1]
    fitted = np.linalg.lstsq(
        known.reshape(-1, width), states[:, 1:].reshape(-1, states.shape[-1]), rcond=None
    )[0]
    return (torch.tensor(part, dtype=torch.float32) for part in (fitted[:-1].T, fitted[-1]))


def _fit_layered(tensors: dict[str, Any], weight: Any, bias: Any) -> None:
    """The fusion is the line; the layer adds little, FLASH's first slot nothing."""
    tensors["fc.weight"], tensors["fc.bias"] = weight.contiguous(), bias.contiguous()
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        tensors[f"layers.0.{name}.weight"] *= 0.05
    if "slots.0.weight" in tensors:
        tensors["slots.0.weight"] *= 0
        tensors["slots.0.bias"] *= 0


def _fit_hydra(tensors: dict[str, Any], weight: Any, bias: Any) -> None:
    """Far above zero silu is a line too: h + silu(W x + b + 20) - 20."""
    import torch

    width = weight.shape[0]
    state, embedding = weight[:, width:] - torch.eye(width), weight[:, :width]
    tensors["heads.0.linear_1.weight"] = torch.cat((state, embedding), dim=1).contiguous()
    tensors["heads.0.linear_1.bias"] = bias + 20
    tensors["heads.0.linear_2.weight"] = torch.eye(width)
    tensors["heads.0.linear_2.bias"] = torch.full((width,), -20.0)
