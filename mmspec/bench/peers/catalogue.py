"""Who is measured: each way of decoding, the worker that does it and how it is told to."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mmspec.errors import choice
from mmspec.options import Gamma

OURS = "mmspec.bench.peers.ours"
TRANSFORMERS = "mmspec_torch.peer_transformers"
MLX_LM = "mmspec_mlx.peer_mlx_lm"
MLX_VLM = "mmspec_mlx.peer_mlx_vlm"

PEERS = ("torch", "mlx", "transformers", "mlx-lm", "mlx-vlm")
"""This project on its two backends, and the others."""
LOOKUP_TOKENS = 10
"""What transformers' documentation of prompt lookup takes."""


@dataclass(frozen=True, slots=True)
class PeerArm:
    """One way of decoding, in a process of its own."""

    name: str
    module: str
    python: str = sys.executable
    drafts: bool = False
    """Whether a draft is loaded."""
    hub_names: bool = False
    """Whether it reads a tower under the hub's names alone."""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        """What starts the worker."""
        return [self.python, "-m", self.module]


def catalogue(
    peers: Sequence[str], words: Sequence[str], gamma: Gamma, mlx_vlm: str | None = None
) -> list[PeerArm]:
    """All arms of the peers named; raises UsageError for a name that is none.

    words: what this project drafts from.  mlx_vlm: the Python of its environment.
    """
    for peer in peers:
        if peer not in PEERS:
            raise choice("peer", peer, PEERS)
    known = {
        "torch": _ours("torch", words, gamma),
        "mlx": _ours("mlx", words, gamma),
        "transformers": _transformers(gamma),
        "mlx-lm": _mlx_lm(gamma),
        "mlx-vlm": _mlx_vlm(mlx_vlm or sys.executable),
    }
    return [arm for peer in PEERS if peer in peers for arm in known[peer]]


def _ours(backend: str, words: Sequence[str], gamma: Gamma) -> list[PeerArm]:
    def arm(name: str, word: str) -> PeerArm:
        options = {"backend": backend, "drafting": word, "gamma": gamma}
        drafts = word not in ("none", "ngram")
        return PeerArm(f"mmspec {backend}, {name}", OURS, drafts=drafts, options=options)

    return [arm("plain", "none"), *(arm(f"{word} gamma {gamma}", word) for word in words)]


def _transformers(gamma: Gamma) -> list[PeerArm]:
    """Plain, its two kinds of speculation, and the assistant at this project's draft length too."""
    fixed = {"assistant_tokens": gamma} if isinstance(gamma, int) else {}
    whole, text = {"assistant": "whole"}, {"assistant": "text"}
    drafted: dict[str, dict[str, Any]] = {
        "assistant_model": whole,
        f"assistant_model, {gamma} tokens": whole | fixed,
        "assistant_model, text part": text,
        f"assistant_model, text part, {gamma} tokens": text | fixed,
    }
    lookup = {"lookup": LOOKUP_TOKENS}
    return [
        PeerArm("transformers, plain", TRANSFORMERS),
        *(
            PeerArm(f"transformers, {name}", TRANSFORMERS, drafts=True, options=options)
            for name, options in drafted.items()
        ),
        PeerArm("transformers, prompt lookup", TRANSFORMERS, options=lookup),
    ]


def _mlx_lm(gamma: Gamma) -> list[PeerArm]:
    fixed = {"draft_tokens": gamma} if isinstance(gamma, int) else {}
    return [
        PeerArm("mlx-lm, plain", MLX_LM),
        PeerArm("mlx-lm, draft_model", MLX_LM, drafts=True),
        PeerArm(f"mlx-lm, draft_model, {gamma} tokens", MLX_LM, drafts=True, options=fixed),
    ]


def _mlx_vlm(python: str) -> list[PeerArm]:
    return [
        PeerArm("mlx-vlm, plain", MLX_VLM, python, hub_names=True),
        PeerArm("mlx-vlm, draft_model", MLX_VLM, python, drafts=True, hub_names=True),
    ]
