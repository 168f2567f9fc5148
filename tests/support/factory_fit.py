"""Makes random heads right sometimes: their fusion fitted to a target by least squares."""

from pathlib import Path
from typing import Any

import numpy as np

from support.transformers_oracle import transformers_model


def fit_head(head: Path, target: Path) -> Path:
    """Fit a head that a pair is fused for to hidden states of the target; returns `head`.

    A line from a token's embedding and the state before it to the state after it. EAGLE-3 heads and
    block drafters are right as often without; of Medusa and Hydra only what images add gets small.
    """
    from safetensors.torch import load_file, save_file

    tensors = load_file(head / "model.safetensors")
    if "fc.weight" in tensors and not tensors.keys() & {"lm_head.weight", "hidden_norm.weight"}:
        _fit_layered(tensors, *_line(target))
    for name in (name for name in tensors if name.startswith("vision.")):
        tensors[name] *= 0.05
    save_file(tensors, head / "model.safetensors", metadata={"format": "pt"})
    return head


def _line(target: Path) -> tuple[Any, Any]:
    """The line's weight [H, 2 H] and bias [H], from transformers' states of random text."""
    import torch

    model = transformers_model(target)
    ids = torch.tensor(np.random.default_rng(0).integers(4, 312, (4, 250)))
    with torch.inference_mode():
        embeddings = model.get_input_embeddings()(ids)
        states = model.model.language_model(input_ids=ids).last_hidden_state
    known = torch.cat((embeddings[:, 1:], states[:, :-1], torch.ones(4, 249, 1)), dim=-1)
    rows = (each.flatten(0, 1).double().numpy() for each in (known, states[:, 1:]))
    fitted = torch.tensor(np.linalg.lstsq(*rows, rcond=None)[0].T, dtype=torch.float32)
    return fitted[:, :-1], fitted[:, -1]


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
