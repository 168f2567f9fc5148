"""Medusa and Hydra to train: the last hidden state, and perhaps the images' embeddings.

Shape letters: B sequences, L columns, A starts, D depths, H width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmspec.heads.config import HeadConfig
from mmspec_torch.train.heads.layered import Follow, fed
from mmspec_torch.train.heads.lesson import Lesson, Starts


class Glance(nn.Module):
    """What a state looks for among the visual embeddings; one head."""

    def __init__(self, width: int) -> None:
        """Add nothing at first."""
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.output.weight)

    def forward(self, states: Tensor, embeddings: Tensor, seen: Tensor) -> Tensor:
        """What to add to states [B, A, H], of which each sees [B, A, L] of [B, L, H]."""
        scores = self.query(states) @ embeddings.transpose(-1, -2) / states.shape[-1] ** 0.5
        # A start without any image before it is given shares of nothing: its row is zeroed.
        shares = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).nan_to_num()
        added: Tensor = self.output(shares.to(embeddings.dtype) @ embeddings)
        return added


class Overview(nn.Linear):
    """The mean visual embedding, mapped."""

    def __init__(self, width: int) -> None:
        """Add nothing at first."""
        super().__init__(width, width, bias=False)
        nn.init.zeros_(self.weight)

    def forward(self, states: Tensor, embeddings: Tensor, seen: Tensor) -> Tensor:  # type: ignore[override]
        """As `Glance`."""
        shares = seen / seen.sum(dim=-1, keepdim=True).clamp(min=1)
        added: Tensor = super().forward(shares.to(embeddings.dtype) @ embeddings)
        return added.to(states.dtype)


class MedusaPlace(nn.Module):
    """h + silu(W h + b), nothing more than h at first (Cai et al. 2024, eq. 1)."""

    def __init__(self, width: int) -> None:
        """Start at zero."""
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, state: Tensor, known: Tensor) -> Tensor:  # noqa: ARG002
        """Features [B, A, H]; what is known of the tokens is not looked at."""
        return state + F.silu(self.linear(state))


class HydraPlace(nn.Module):
    """An MLP of the state and the embeddings of the tokens since (Ankner et al. 2024, eq. 2)."""

    def __init__(self, width: int, inputs: int) -> None:
        """Add nothing at first."""
        super().__init__()
        self.linear_1 = nn.Linear(inputs, width)
        self.linear_2 = nn.Linear(width, width)
        nn.init.zeros_(self.linear_2.weight)
        nn.init.zeros_(self.linear_2.bias)

    def forward(self, state: Tensor, known: Tensor) -> Tensor:
        """Features [B, A, H]."""
        added: Tensor = self.linear_2(F.silu(self.linear_1(known)))
        return state + added


class Slotted(nn.Module):
    """A head without a cache."""

    def __init__(self, config: HeadConfig) -> None:
        """Build it so that every place says at first what the target would say next."""
        super().__init__()
        self.config = config
        width = config.hidden_size
        if config.vision != "none":
            self.vision = Glance(width) if config.vision == "attention" else Overview(width)
        places = range(config.slots)
        if config.kind == "medusa":
            self.heads = nn.ModuleList(MedusaPlace(width) for _ in places)
        else:
            self.heads = nn.ModuleList(HydraPlace(width, (2 + n) * width) for n in places)

    def forward(self, lesson: Lesson, starts: Starts, follow: Follow | None = None) -> Tensor:
        """Features [D, B, A, H], as `Layered` gives them."""
        state = lesson.at(lesson.states, (starts.columns - 1).clamp(min=0))
        state = self._seeing(state, lesson, starts)
        known = torch.cat((state, lesson.at(lesson.embeddings, starts.columns)), dim=-1)
        features: list[Tensor] = []
        for depth, place in enumerate(list(self.heads)[: starts.depth]):
            if depth and self.config.kind == "hydra":
                told = fed(features[-1], lesson, starts, depth, follow)
                known = torch.cat((known, told), dim=-1)
            features.append(place(state, known))
        return torch.stack(features)

    def _seeing(self, state: Tensor, lesson: Lesson, starts: Starts) -> Tensor:
        if self.config.vision == "none":
            return state
        columns = torch.arange(lesson.ids.shape[1], device=state.device)
        before = columns < starts.columns.unsqueeze(-1)
        seen = lesson.visual.unsqueeze(1) & before
        added: Tensor = self.vision(state, lesson.embeddings, seen)
        return state + added
