"""Medusa and Hydra to train: MLPs on the last hidden state, Medusa's perhaps with images.

Shape letters: B sequences, L columns, A starts, D depths, H width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmspec.checkpoints.head_config import HeadConfig
from mmspec_train.data.batch import Batch, gather_columns
from mmspec_train.distillation.objective import DraftStarts
from mmspec_train.heads.head import Head


class MedusaSlot(nn.Module):
    """h + silu(W h + b), which is h before training (Cai et al. 2024, eq. 1)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, state: Tensor, inputs: Tensor) -> Tensor:  # noqa: ARG002
        """Return features [B, A, H] of the state alone."""
        return state + F.silu(self.linear(state))


class HydraSlot(nn.Module):
    """An MLP of the state and the next tokens' embeddings (Ankner et al. 2024, eq. 2)."""

    def __init__(self, width: int, inputs: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(inputs, width)
        self.linear_2 = nn.Linear(width, width)
        nn.init.zeros_(self.linear_2.weight)
        nn.init.zeros_(self.linear_2.bias)

    def forward(self, state: Tensor, inputs: Tensor) -> Tensor:
        """Return features [B, A, H]; inputs [B, A, ...] begin with the state."""
        change: Tensor = self.linear_2(F.silu(self.linear_1(inputs)))
        return state + change


class SlottedModule(Head):
    """A Medusa or Hydra head, which needs no cache."""

    def __init__(self, config: HeadConfig) -> None:
        """Build it so that every untrained slot predicts the target's next token."""
        super().__init__()
        self.config = config
        width, slots = config.hidden_size, range(config.slots)
        if config.vision == "mean":
            self.vision = nn.Linear(width, width, bias=False)
            nn.init.zeros_(self.vision.weight)
        if config.kind == "medusa":
            self.heads = nn.ModuleList(MedusaSlot(width) for _ in slots)
        else:
            self.heads = nn.ModuleList(HydraSlot(width, (2 + n) * width) for n in slots)

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
        inputs = torch.cat((state, gather_columns(batch.embeddings, starts.columns)), dim=-1)
        features: list[Tensor] = []
        for depth, slot in enumerate(list(self.heads)[: starts.depth]):
            if depth and self.config.kind == "hydra":
                token = gather_columns(batch.embeddings, starts.after(depth))
                inputs = torch.cat((inputs, token), dim=-1)
            features.append(slot(state, inputs))
        return torch.stack(features)
