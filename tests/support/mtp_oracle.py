"""A Qwen3.5's own drafter of transformers' classes, which compute the whole sequence every time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5RMSNorm, Qwen3_5TextRotaryEmbedding

from support.factory_qwen import mtp_layer
from support.mrope_oracle import read_columns
from support.qwen_oracle import Oracle


class MtpOracle:
    """A checkpoint's target and drafter in float32."""

    def __init__(self, path: Path) -> None:
        self._target = Oracle(path)
        stored = load_file(path / "model.safetensors")
        parts = {name.removeprefix("mtp."): stored[name] for name in stored if "mtp." in name}
        self._layer, text = mtp_layer(path)
        prefix = "layers.0."
        own = {n.removeprefix(prefix): parts[n].float() for n in parts if n.startswith(prefix)}
        self._layer.load_state_dict(own)
        self._fc, self._rotary = parts["fc.weight"].float(), Qwen3_5TextRotaryEmbedding(text)
        self._norms = {}
        for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
            self._norms[name] = Qwen3_5RMSNorm(text.hidden_size, text.rms_norm_eps)
            self._norms[name].load_state_dict({"weight": parts[f"{name}.weight"].float()})

    @torch.no_grad()
    def draft(
        self, ids: Sequence[int], count: int, pictures: Sequence[Any] = (), by_index: bool = False
    ) -> list[int]:
        """The drafter's likeliest `count` tokens after a prompt, of which the last two are text."""
        model, columns = self._target.model, read_columns(self._target, [*ids], [*pictures])
        decoder, (first, *_, last) = model.model.language_model, columns["layers"]
        counted = torch.arange(len(ids)).expand(3, -1)
        positions = (counted if by_index else columns["positions"])[:, :-1]
        states, embeddings = decoder.norm(last)[None, :-1], first[None, 1:]
        drafted = list[int]()
        for _ in range(count):
            normed = self._norms["pre_fc_norm_embedding"](embeddings)
            both = torch.cat((normed, self._norms["pre_fc_norm_hidden"](states)), -1)
            x = both @ self._fc.T
            turns = self._rotary(x, positions[:, None])
            features = self._norms["norm"](self._layer(x, position_embeddings=turns))
            drafted.append(int(model.lm_head(features[:, -1]).argmax()))
            embeddings = torch.cat(
                (embeddings, decoder.embed_tokens(torch.tensor([drafted[-1:]]))), 1
            )
            states = torch.cat((states, features[:, -1:]), 1)
            positions = torch.cat((positions, positions[:, -1:] + 1), 1)
        return drafted
