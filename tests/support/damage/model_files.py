"""Checkpoints of models and heads, and how a process uses them."""

from pathlib import Path

from mmspec.chat.engine import load
from support.damage.subject import OPTIONS, TEXT, picture


def use_model(file: Path, backend: str) -> None:
    """Load a checkpoint and answer a question about a picture."""
    engine = load(str(file.parent), "none", backend=backend, device="cpu", dtype="float32")
    engine.chat(OPTIONS).reply(TEXT, [picture()])


def use_head(file: Path, backend: str) -> None:
    """Load a head and draft with it."""
    target = file.parents[2] / "llava" / "source"
    engine = load(str(target), str(file.parent), backend=backend, device="cpu")
    engine.chat(OPTIONS).reply(TEXT)
