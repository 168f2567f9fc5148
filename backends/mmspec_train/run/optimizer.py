"""Muon for matrices that map hidden vectors to hidden vectors, AdamW for everything else."""

import math
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from mmspec_train.run.machine import multiplies_bfloat16

MUON_NAMES = re.compile(r"(^|\.)(layers|heads|slots)\.\d+\.|^(fc|vision)\.")
"""Pattern of the names of matrices that map hidden vectors to hidden vectors: Muon trains them."""
BETAS = (0.9, 0.98)
WEIGHT_DECAY = 0.02
CLIP = 1.0
"""Largest norm of the gradients of a parameter group."""
WARM_UP_STEPS = 100
UPDATE_SIZE = "match_rms_adamw"
"""PyTorch's name of updates with the size of AdamW's."""


def rate_share(step: int, progress: float, final: float, warm_up: int = WARM_UP_STEPS) -> float:
    """Return the learning rate as a share of its peak: linear warm-up, then a cosine to `final`."""
    falling = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return min(1.0, (step + 1) / warm_up) * (final + (1 - final) * falling)


class Float32Muon(torch.optim.Muon):
    """PyTorch's Muon, which orthogonalises in bfloat16, for CPUs that have no units for it."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """Take a step with Nesterov momentum; updates have the size of AdamW's."""
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                buffer = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p.grad))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                x = p.grad.lerp(buffer, group["momentum"])
                x = x.T if (is_tall := x.shape[0] > x.shape[1]) else x
                x = x / x.norm().clamp(min=group["eps"])
                a, b, c = group["ns_coefficients"]
                for _ in range(group["ns_steps"]):
                    gram = x @ x.T
                    x = a * x + (b * gram + c * gram @ gram) @ x
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(x.T if is_tall else x, alpha=0.2 * max(p.shape) ** 0.5 * group["lr"])


class Optimizer:
    """Optimizers over disjoint parameters, stepped as one, both with AdamW's learning rates."""

    def __init__(self, parts: Iterable[tuple[nn.Module, float]], muon: bool = True) -> None:
        """parts: modules with their peak learning rates.  muon: False for AdamW alone."""
        matrices: list[dict[str, Any]] = []
        remainder: list[dict[str, Any]] = []
        for part, rate in parts:
            for groups, parameters in zip((matrices, remainder), _split(part, muon), strict=True):
                if parameters:
                    groups.append({"params": parameters, "lr": rate, "peak": rate})
        self._optimizers: list[torch.optim.Optimizer] = []
        if remainder:
            adamw = torch.optim.AdamW(remainder, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True)
            self._optimizers.append(adamw)
        if matrices:
            on_cpu = all(p.is_cpu for group in matrices for p in group["params"])
            kind = Float32Muon if on_cpu and not multiplies_bfloat16() else torch.optim.Muon
            optimizer = kind(matrices, weight_decay=WEIGHT_DECAY, adjust_lr_fn=UPDATE_SIZE)
            self._optimizers.append(optimizer)

    def scale_rates(self, scale: float) -> float:
        """Set each learning rate to `scale` times its peak; returns the highest."""
        for group in self._groups():
            group["lr"] = group["peak"] * scale
        return max(float(group["lr"]) for group in self._groups())

    def step(self) -> None:
        """Clip the gradients, take one step and clear them."""
        for group in self._groups():
            nn.utils.clip_grad_norm_(group["params"], CLIP)
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


def _split(part: nn.Module, muon: bool) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the parameters for Muon and those for AdamW."""
    inner, others = list[nn.Parameter](), list[nn.Parameter]()
    for name, parameter in part.named_parameters():
        is_inner = muon and MUON_NAMES.search(name) and parameter.ndim == 2
        (inner if is_inner else others).append(parameter)
    return inner, others
