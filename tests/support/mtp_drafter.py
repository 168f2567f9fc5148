"""Qwen3.5's drafter, of transformers' classes."""

from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoConfig
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen3_5


class MtpDrafter(torch.nn.Module):
    """The drafter of a checkpoint's sizes with fresh weights, named as the hub's files do."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        text = AutoConfig.from_pretrained(path).get_text_config()
        text.layer_types, text._attn_implementation = ["full_attention"], "sdpa"
        self.layers = torch.nn.ModuleList([qwen3_5.Qwen3_5DecoderLayer(text, 0)])
        for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
            setattr(self, name, qwen3_5.Qwen3_5RMSNorm(text.hidden_size, text.rms_norm_eps))
        self.fc = torch.nn.Linear(2 * text.hidden_size, text.hidden_size, bias=False)
        self._turn = [qwen3_5.Qwen3_5TextRotaryEmbedding(text)]  # in a list: no weight of its own

    def forward(self, embeddings: Tensor, states: Tensor, positions: Tensor) -> Tensor:
        both = self.pre_fc_norm_embedding(embeddings), self.pre_fc_norm_hidden(states)
        x = self.fc(torch.cat(both, -1))
        return self.norm(self.layers[0](x, position_embeddings=self._turn[0](x, positions)))
