"""EAGLE-3 heads over Qwen, the long way: positions, states and rotation are transformers' own."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen2_5_vl
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3_vl

from support.factory_qwen import IMAGE_ID
from support.heads_oracle import Reference
from support.qwen_oracle import Oracle
from support.transformers_oracle import decoder_layer

FAMILIES = {
    False: (qwen2_5_vl.Qwen2_5_VLTextConfig, qwen2_5_vl.Qwen2_5_VLRotaryEmbedding),
    True: (qwen3_vl.Qwen3VLTextConfig, qwen3_vl.Qwen3VLTextRotaryEmbedding),
}
"""Transformers' classes by whether time, row and column take turns."""


def read_columns(oracle: Oracle, tokens: list[int], pictures: list[Any]) -> dict[str, Any]:
    """Positions [3, n], and what every layer reads [n, H], the last norm included."""
    model, caught = oracle.model.model.language_model, {"layers": []}

    def catch(_module: Any, _given: Any, named: dict[str, Any]) -> None:
        counted = torch.arange(len(tokens)).expand(3, 1, -1)
        given = named["position_ids"]  # none where they count up
        caught["positions"] = (counted if given is None else given)[-3:, 0]

    def catch_layer(_module: Any, given: Any) -> None:
        caught["layers"].append(given[0][0])

    hooks = [model.register_forward_pre_hook(catch, with_kwargs=True)]
    hooks += [each.register_forward_pre_hook(catch_layer) for each in (*model.layers, model.norm)]
    rows = torch.tensor([tokens])
    seen = oracle.images(pictures, return_tensors="pt") if pictures else {}
    kinds = {"mm_token_type_ids": (rows == IMAGE_ID).int()} if pictures else {}
    with torch.inference_mode():
        oracle.model(input_ids=rows, **seen, **kinds)
    for hook in hooks:
        hook.remove()
    return caught


class QwenReference(Reference):
    """One EAGLE-3 head with M-RoPE over one prompt of a Qwen."""

    def __init__(
        self, directory: Path, oracle: Oracle, tokens: list[int], pictures: list[Any]
    ) -> None:
        self.config = json.loads((directory / "config.json").read_text())
        self.tensors = load_file(directory / "model.safetensors")
        self.target, self.layer = oracle.model, decoder_layer(self.config, self.tensors)
        columns = read_columns(oracle, tokens, pictures)
        self.layers = torch.cat(columns["layers"], dim=-1)
        self.embeddings = columns["layers"][0]
        self.positions = columns["positions"]
        self.image = [token == IMAGE_ID for token in tokens]
        self.image_id = IMAGE_ID

    def _angles(self, count: int) -> Any:
        """Slot j stands where the target has column j."""
        own = self.config["rope_scaling"]
        later = torch.arange(count) + self.positions.max() + 1
        positions = torch.cat((self.positions, later.expand(3, -1)), dim=1)[:, :count]
        rope = {"rope_type": "default", "rope_theta": self.config["rope_theta"]}
        rope |= {"mrope_section": own["mrope_section"]}
        names = ("hidden_size", "num_attention_heads", "max_position_embeddings")
        text, embedding = FAMILIES[bool(own.get("mrope_interleaved"))]
        sizes = {name: self.config[name] for name in names}
        size = sizes["hidden_size"] // sizes["num_attention_heads"]
        config = text(**sizes, head_dim=size, rope_parameters=rope)
        return embedding(config)(torch.zeros(1), positions[:, None])
