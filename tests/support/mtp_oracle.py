"""A Qwen3.5's own drafter of transformers' classes, which compute the whole sequence every time."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5RMSNorm, Qwen3_5TextRotaryEmbedding

from support.factory_qwen import mtp_layer


class MtpOracle:
    """A checkpoint's target and drafter in float32, for text."""

    def __init__(self, path: Path) -> None:
        self._model = AutoModelForImageTextToText.from_pretrained(path, dtype=torch.float32).eval()
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
    def draft(self, ids: Sequence[int], count: int) -> list[int]:
        """The drafter's likeliest `count` tokens after a text."""
        decoder, rows = self._model.model.language_model, torch.tensor([list(ids)])
        states = decoder(input_ids=rows).last_hidden_state[:, :-1]
        embeddings, drafted = decoder.embed_tokens(rows)[:, 1:], list[int]()
        for _ in range(count):
            normed = self._norms["pre_fc_norm_embedding"](embeddings)
            both = torch.cat((normed, self._norms["pre_fc_norm_hidden"](states)), -1)
            x = both @ self._fc.T
            turns = self._rotary(x, torch.arange(x.shape[1])[None, None].expand(3, 1, -1))
            features = self._norms["norm"](self._layer(x, position_embeddings=turns))
            drafted.append(int(self._model.lm_head(features[:, -1]).argmax()))
            embeddings = torch.cat(
                (embeddings, decoder.embed_tokens(torch.tensor([drafted[-1:]]))), 1
            )
            states = torch.cat((states, features[:, -1:]), 1)
        return drafted
