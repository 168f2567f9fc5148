"""AdamW, and by some rules Muon for matrices that map hidden vectors to hidden vectors."""

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from mmspec_train.recipes import OURS, UpdateRule

HIDDEN = re.compile(r"(^|\.)(layers|heads|slots)\.\d+\.|^(fc|vision)\.")
"""Pattern of the names of matrices that map hidden vectors to hidden vectors: Muon trains them."""


class Optimizer:
    """One or two optimizers over disjoint parameters, stepped as one.

    Both take AdamW's learning rates: Muon's updates are scaled to the size of AdamW's.
    """

    def __init__(self, parts: Iterable[tuple[nn.Module, float]], rule: UpdateRule = OURS) -> None:
        """parts: modules with their peak learning rates."""
        self._rule = rule
        matrices: list[dict[str, Any]] = []
        others: list[dict[str, Any]] = []
        for part, rate in parts:
            for groups, parameters in zip((matrices, others), _split(part, rule), strict=True):
                if parameters:
                    groups.append({"params": parameters, "lr": rate, "peak": rate})
        self._optimizers: list[torch.optim.Optimizer] = []
        if others:
            adamw = torch.optim.AdamW(
                others, betas=rule.betas, weight_decay=rule.weight_decay, fused=True
            )
            self._optimizers.append(adamw)
        if matrices:
            muon = torch.optim.Muon(
                matrices, weight_decay=rule.weight_decay, adjust_lr_fn="match_rms_adamw"
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
        """Clip the gradients, take one step and clear them."""
        self._clip()
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def _clip(self) -> None:
        groups = [group["params"] for group in self._groups()]
        everything = [parameter for group in groups for parameter in group]
        if self._rule.clip_by == "value":
            nn.utils.clip_grad_value_(everything, self._rule.clip)
            return
        for parameters in groups if self._rule.clip_by == "group" else [everything]:
            nn.utils.clip_grad_norm_(parameters, self._rule.clip)

    def state_dict(self) -> list[dict[str, Any]]:
        """Return both optimizers' states."""
        return [optimizer.state_dict() for optimizer in self._optimizers]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Restore both optimizers' states."""
        for optimizer, state in zip(self._optimizers, states, strict=True):
            optimizer.load_state_dict(state)

    def _groups(self) -> Iterable[dict[str, Any]]:
        return (group for optimizer in self._optimizers for group in optimizer.param_groups)


def _split(part: nn.Module, rule: UpdateRule) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the parameters for Muon and those for AdamW."""
    parameters = list(part.named_parameters())
    inner = [p for name, p in parameters if rule.muon and HIDDEN.search(name) and p.ndim == 2]
    inner_ids = {id(p) for p in inner}
    return inner, [p for _, p in parameters if id(p) not in inner_ids]
