"""Checkpoints of models and heads, and how a process uses them."""

from pathlib import Path

from mmspec.chat.engine import load
from support.damage.subject import OPTIONS, TEXT, picture


def use_model(file: Path, backend: str) -> None:
    """Load a checkpoint and answer a question about a picture."""
    engine = load(str(file.parent), "none", backend=backend, device="cpu", dtype="float32")
    engine.chat(OPTIONS).reply(TEXT, [picture()])


def use_head(file: Path, backend: str) -> None:
    """Load a head for a LLaVA and draft with it."""
    _use_head(file, "llava", backend)


def use_qwen_head(file: Path, backend: str) -> None:
    """Load a head for a Qwen2.5-VL and draft with it."""
    _use_head(file, "qwen2_5_vl", backend)


def _use_head(file: Path, target: str, backend: str) -> None:
    source = file.parents[2] / target / "source"
    engine = load(str(source), str(file.parent), backend=backend, device="cpu")
    engine.chat(OPTIONS).reply(TEXT, [picture()])
