"""Medusa and Hydra to train: MLPs on the last hidden state, Medusa's perhaps with images.

Medusa's features are h + silu(W h + b) of the state h (Cai et al. 2024, eq. 1); Hydra's MLP reads
the state and the next tokens' embeddings (Ankner et al. 2024, eq. 2).

Shape letters: B sequences, L columns, A starts, D depths, H width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmspec.checkpoints.head_config import HeadConfig
from mmspec_train.data.batch import Batch, gather_columns
from mmspec_train.distillation.objective import DraftStarts
from mmspec_train.heads.head import Head, zero_linear


class SlottedModule(Head):
    """A Medusa or Hydra head, which needs no cache."""

    def __init__(self, config: HeadConfig) -> None:
        """Build it so that every untrained slot predicts the target's next token."""
        super().__init__()
        self.config = config
        width = config.hidden_size
        if config.vision == "mean":
            self.vision = zero_linear(width, bias=False)
        self.heads = nn.ModuleList()
        for slot in range(config.slots):
            if config.kind == "medusa":
                layers = {"linear": zero_linear(width)}
            else:
                first = nn.Linear((2 + slot) * width, width)
                layers = {"linear_1": first, "linear_2": zero_linear(width)}
            self.heads.append(nn.ModuleDict(layers))

    def forward(self, batch: Batch, starts: DraftStarts) -> Tensor:
        """Return features [D, B, A, H]."""
        state = gather_columns(batch.states, starts.before)
        if self.config.vision == "mean":
            columns = torch.arange(batch.ids.shape[1], device=state.device)
            before = columns < starts.columns.unsqueeze(-1)
            visible = batch.visual.unsqueeze(1) & before
            shares = visible / visible.sum(dim=-1, keepdim=True).clamp(min=1)
            mean = shares.to(batch.embeddings.dtype) @ batch.embeddings
            state = state + self.vision(mean).to(state.dtype)
        inputs, features = state, list[Tensor]()
        for slot, columns_before in zip(self.heads, starts.after, strict=False):
            if self.config.kind == "medusa":
                change = F.silu(slot.get_submodule("linear")(state))
            else:
                token = gather_columns(batch.embeddings, columns_before)
                inputs = torch.cat((inputs, token), dim=-1)
                hidden = F.silu(slot.get_submodule("linear_1")(inputs))
                change = slot.get_submodule("linear_2")(hidden)
            features.append(state + change)
        return torch.stack(features)
