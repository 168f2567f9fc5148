"""Muon for matrices that map hidden vectors to hidden vectors, AdamW for everything else."""

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

CLIP_NORM = 1.0
"""Largest gradient norm of one parameter group; larger gradients are scaled down."""
WEIGHT_DECAY = 0.02
HIDDEN = re.compile(r"(^|\.)(layers|heads|slots)\.\d+\.|^(fc|vision)\.")
"""Pattern of the names of matrices that map hidden vectors to hidden vectors: Muon trains them."""


class Optimizer:
    """Two optimizers over disjoint parameters, stepped as one.

    Both take AdamW's learning rates: Muon's updates are scaled to the size of AdamW's.
    """

    def __init__(self, parts: Iterable[tuple[nn.Module, float]]) -> None:
        matrices: list[dict[str, Any]] = []
        others: list[dict[str, Any]] = []
        for part, rate in parts:
            for groups, parameters in zip((matrices, others), _split(part), strict=True):
                if parameters:
                    groups.append({"params": parameters, "lr": rate, "peak": rate})
        self._optimizers: list[torch.optim.Optimizer] = []
        if others:
            adamw = torch.optim.AdamW(
                others, betas=(0.9, 0.98), weight_decay=WEIGHT_DECAY, fused=True
            )
            self._optimizers.append(adamw)
        if matrices:
            muon = torch.optim.Muon(
                matrices, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw"
            )
            self._optimizers.append(muon)

    @property
    def highest_rate(self) -> float:
        """The highest peak learning rate of any part."""
        return max(float(group["peak"]) for group in self._groups())

    def scale_rates(self, scale: float) -> None:
        """Set each learning rate to `scale` times its peak."""
        for group in self._groups():
            group["lr"] = group["peak"] * scale

    def step(self) -> None:
        """Clip the gradients of each group, take one step and clear them."""
        for group in self._groups():
            nn.utils.clip_grad_norm_(group["params"], CLIP_NORM)
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        """Return both optimizers' states."""
        return [optimizer.state_dict() for optimizer in self._optimizers]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Restore both optimizers' states."""
        for optimizer, state in zip(self._optimizers, states, strict=True):
            optimizer.load_state_dict(state)

    def _groups(self) -> Iterable[dict[str, Any]]:
        return (group for optimizer in self._optimizers for group in optimizer.param_groups)


def _split(part: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the parameters for Muon and those for AdamW."""
    parameters = list(part.named_parameters())
    inner = [p for name, p in parameters if HIDDEN.search(name) and p.ndim == 2]
    inner_ids = {id(p) for p in inner}
    return inner, [p for _, p in parameters if id(p) not in inner_ids]
