"""Makes random heads right sometimes: their first step fitted to a target by least squares."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


def fit_head(head: Path, target: Path) -> Path:
    """Fit a head's first step to hidden states of the target in `target`; returns `head`.

    A line from a token's embedding and the state before it to the state after it.
    """
    from safetensors.torch import load_file, save_file

    tensors, text = load_file(head / "model.safetensors"), _columns(target)
    weight, bias = _line(text)
    if "hidden_norm.weight" in tensors:
        return head  # a block drafter, which no line makes right
    if "lm_head.weight" in tensors:
        _fit_eagle3(tensors, text)
    elif "fc.weight" in tensors:
        _fit_layered(tensors, weight, bias)
    elif "heads.0.linear_1.weight" in tensors:
        _fit_hydra(tensors, weight, bias)
    if "vision.weight" in tensors:
        tensors["vision.weight"] *= 0.05
    save_file(tensors, head / "model.safetensors", metadata={"format": "pt"})
    return head


class Text(NamedTuple):
    """What transformers computes of random text; all float64."""

    layers: np.ndarray
    """[B, n, (1 + layers) H] embeddings, then the outputs of all layers before the last norm."""
    states: np.ndarray
    """[B, n, H] after the last norm."""
    head: np.ndarray
    """[V, H] the output matrix."""

    @property
    def embeddings(self) -> np.ndarray:
        """[B, n, H]."""
        return self.layers[..., : self.states.shape[-1]]


def _columns(target: Path) -> Text:
    """Embeddings, layers and hidden states of random text, by transformers."""
    import torch
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(target, dtype=torch.float32).eval()
    ids = torch.tensor(np.random.default_rng(0).integers(4, 312, (4, 250)))
    decoder, last = model.model.language_model, []
    hook = decoder.norm.register_forward_pre_hook(lambda _module, given: last.append(given[0]))
    with torch.inference_mode():
        told = decoder(input_ids=ids, output_hidden_states=True)
    hook.remove()
    # Transformers puts the last layer's output after the norm among the others.
    layers = torch.cat((*told.hidden_states[:-1], last[0]), dim=-1)
    parts = layers, told.last_hidden_state, model.lm_head.weight
    return Text(*(part.detach().double().numpy() for part in parts))


def _line(text: Text) -> tuple[Any, Any]:
    fitted = _fitted([text.embeddings[:, 1:], text.states[:, :-1]], text.states[:, 1:])
    return fitted[:, :-1], fitted[:, -1]


def _fitted(known: list[np.ndarray], wanted: np.ndarray) -> Any:
    """The weight [H, I + 1] from known columns [B, n, I] and a one to the wanted [B, n, H]."""
    import torch

    columns = np.concatenate([*known, np.ones_like(wanted[..., :1])], axis=-1)
    rows = columns.reshape(-1, columns.shape[-1]), wanted.reshape(-1, wanted.shape[-1])
    return torch.tensor(np.linalg.lstsq(*rows, rcond=None)[0].T, dtype=torch.float32)


def _fit_eagle3(tensors: dict[str, Any], text: Text) -> None:
    """The fusion reads the layers; attention sees little but its own column, and adds its token."""
    import torch

    width, count = tensors["norm.weight"].shape[0], tensors["fc.weight"].shape[1]
    embeddings = text.embeddings[:, 1:]
    normed = embeddings / np.sqrt((embeddings**2).mean(-1, keepdims=True) + 1e-5)
    fitted = _fitted([text.layers[:, :-1, :count], normed], text.states[:, 1:])
    tensors["fc.weight"] = fitted[:, :count].contiguous()
    stem = "layers.0.self_attn"
    tensors[f"{stem}.q_proj.weight"] *= 2
    tensors[f"{stem}.k_proj.weight"] = tensors[f"{stem}.q_proj.weight"].clone()
    value = torch.cat((fitted[:, count:-1], torch.zeros(width, width)), dim=1)
    tensors[f"{stem}.v_proj.weight"], tensors[f"{stem}.o_proj.weight"] = value, torch.eye(width)
    tensors["layers.0.mlp.down_proj.weight"] *= 0.02
    for name in (name for name in tensors if "norm" in name):
        tensors[name] = torch.ones_like(tensors[name])
    drafts = tensors["lm_head.weight"].shape[0]
    ids = torch.arange(drafts) + tensors.get("d2t", torch.zeros(drafts, dtype=torch.long))
    tensors["lm_head.weight"] = torch.tensor(text.head, dtype=torch.float32)[ids]


def _fit_layered(tensors: dict[str, Any], weight: Any, bias: Any) -> None:
    """The fusion is the line; the layer adds little, FLASH's first slot nothing."""
    import torch

    tensors["fc.weight"], tensors["fc.bias"] = weight.contiguous(), bias.contiguous()
    if "img_fc.weight" in tensors:  # states pass, and a little of the image
        tensors["img_fc.weight"] *= 0.05
        tensors["img_fc.weight"][:, : len(weight)] = torch.eye(len(weight))
        tensors["img_fc.bias"] *= 0
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
