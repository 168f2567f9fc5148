"""The methods of `bench peers`: each with its script and the script's options."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mmspec.chat.options import Gamma, Options
from mmspec.checkpoints.head_export import SPECULATIVE_TOKENS
from mmspec.drafters.views import WITHOUT_MODEL
from mmspec.ground.errors import choice

PEERS = ("torch", "mlx", "transformers", "mlx-lm", "mlx-vlm", "vllm", "llama.cpp")
"""Programs to compare: this project on each of its two backends, and five other projects."""
LOOKUP_TOKENS = 10
"""Tokens that prompt lookup proposes, the value in transformers' documentation."""


@dataclass(frozen=True, slots=True)
class PeerMethod:
    """One decoding method, run in its own processes."""

    name: str
    script: str
    """Module in `mmspec_bench.compare`, and its function that loads the program."""
    drafts: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    python: str = sys.executable
    exports: bool = False
    """True if the draft is a head that must be written as vLLM reads it."""

    @property
    def program(self) -> str:
        """What decodes, whichever way: the first of its methods decodes plainly."""
        return self.name.partition(",")[0]


def peer_methods(
    peers: Sequence[str],
    draftings: Sequence[str],
    gamma: Gamma,
    exact: str,
    quantize: str,
    pythons: Mapping[str, str | None],
) -> list[PeerMethod]:
    """All methods of the named peers, with Pythons by peer; raises UsageError for wrong values."""
    for peer in peers or [""]:
        if peer not in PEERS:
            raise choice("peer", peer, PEERS)
    transformers, mlx_lm = "run_transformers.load_transformers", "run_mlx.load_mlx_lm"
    llama_cpp, vllm = "run_llama_cpp.load_llama_cpp", "run_vllm.load_vllm"
    lookup = {"lookup": LOOKUP_TOKENS}
    lengths = [None] if gamma == "auto" else [None, gamma]
    length = SPECULATIVE_TOKENS if gamma == "auto" else gamma  # vLLM adapts no length
    by_peer = {
        "torch": _mmspec("torch", quantize, draftings, gamma, exact),
        "mlx": _mmspec("mlx", "none", draftings, gamma, exact),
        "transformers": [
            PeerMethod("transformers, plain", transformers),
            *(_with_draft("transformers, assistant_model", transformers, n) for n in lengths),
            PeerMethod("transformers, prompt lookup", transformers, options=lookup),
        ],
        "mlx-lm": [
            PeerMethod("mlx-lm, plain", mlx_lm),
            *(_with_draft("mlx-lm, draft_model", mlx_lm, n) for n in lengths),
        ],
        "mlx-vlm": [PeerMethod("mlx-vlm, plain", "run_mlx.load_mlx_vlm")],
        "vllm": [
            PeerMethod("vLLM, plain", vllm),
            replace(_with_draft("vLLM, head", vllm, length), exports=True),
        ],
        "llama.cpp": [
            PeerMethod("llama.cpp, plain", llama_cpp),
            PeerMethod("llama.cpp, prompt lookup", llama_cpp, options=lookup),
        ],
    }
    return [
        replace(method, python=pythons.get(peer) or sys.executable)
        for peer in PEERS
        if peer in peers
        for method in by_peer[peer]
    ]


def _mmspec(
    backend: str, quantize: str, draftings: Sequence[str], gamma: Gamma, exact: str
) -> list[PeerMethod]:
    methods = []
    for drafting in dict.fromkeys(("none", *draftings)):
        name = "plain" if drafting == "none" else f"{drafting} gamma {gamma}"
        options: dict[str, Any] = {"drafting": drafting, "gamma": gamma, "exact": exact}
        Options(**options).require_drafting()  # refuses what its process would, before any starts
        script, drafts = "run_mmspec.load_mmspec", drafting not in WITHOUT_MODEL
        options |= {"backend": backend, "quantize": quantize}
        methods.append(PeerMethod(f"mmspec {backend}, {name}", script, drafts, options))
    return methods


def _with_draft(name: str, script: str, tokens: int | None) -> PeerMethod:
    """A method with a draft of `tokens` tokens a round; None: the library's own schedule."""
    if tokens is None:
        return PeerMethod(name, script, drafts=True)
    return PeerMethod(f"{name}, {tokens} tokens", script, True, {"draft_tokens": tokens})
