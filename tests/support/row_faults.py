"""Faults of a kernel: a row's bits depend on the rows beside it."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from mmspec.decoding.block_attention import BLOCK

WIDE, FAR = 4, 4 * BLOCK
"""Rows and columns beyond which a faulty kernel of attention takes another way."""


def bits_by_rows(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let a product give other bits if it has more than one row."""
    _after_mlp(monkeypatch, backend, lambda x, out: out * (1.01 if x.shape[-2] > 1 else 1))


def bits_of_one_and_of_many(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let a product of one row, or of more than 16, give other bits than one between."""
    _after_mlp(monkeypatch, backend, lambda x, out: out * (1 if 1 < x.shape[-2] <= 16 else 1.01))


def bits_by_company(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let a product give other bits if the other rows hold something else."""
    _after_mlp(monkeypatch, backend, lambda x, out: out + 0.01 * x.sum())


def logits_by_rows(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let the output matrix give other bits if it has more than one row."""
    target = _named(backend, "sequence.target", "Target")
    original = target.project

    def project(self: Any, states: Any) -> Any:
        return original(self, states) * (1.01 if states.shape[0] > 1 else 1)

    monkeypatch.setattr(target, "project", project)


def far_attention_by_rows(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let attention give other bits if many rows read many columns."""

    def is_faulty(queries: Any, keys: Any, places: Any) -> bool:
        return bool(queries.shape[2] > WIDE and keys.shape[1] >= FAR)

    _after_attention(monkeypatch, backend, is_faulty)


def attention_of_trees(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let attention give a tree's rows other bits in the second block of keys alone."""

    def is_faulty(queries: Any, keys: Any, places: Any) -> bool:
        return places.tree is not None and bool(keys.shape[1] == 2 * BLOCK)

    _after_attention(monkeypatch, backend, is_faulty)


def states_by_rows(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let hidden states differ that no logit shows, if there is more than one row."""
    target = _named(backend, "sequence.target", "Target")
    states, project = target.forward, target.project

    def changed(self: Any, outputs: Any, start: int) -> Any:
        found = states(self, outputs, start)
        return found + (64 if found.shape[0] > 1 else 0)

    def restored(self: Any, found: Any) -> Any:
        return project(self, found - (64 if found.shape[0] > 1 else 0))

    monkeypatch.setattr(target, "forward", changed)
    monkeypatch.setattr(target, "project", restored)


def _named(backend: str, module: str, kind: str) -> Any:
    """A class of a backend, such as TorchTarget."""
    return getattr(importlib.import_module(f"mmspec_{backend}.{module}"), backend.title() + kind)


def _after_attention(
    monkeypatch: pytest.MonkeyPatch, backend: str, is_faulty: Callable[[Any, Any, Any], bool]
) -> None:
    attention = importlib.import_module(f"mmspec_{backend}.network.attention")
    original = attention.attend

    def attend(xp: Any, queries: Any, keys: Any, values: Any, places: Any) -> Any:
        attended = original(xp, queries, keys, values, places)
        return attended * 1.05 if is_faulty(queries, keys, places) else attended

    monkeypatch.setattr(attention, "attend", attend)


def _after_mlp(
    monkeypatch: pytest.MonkeyPatch, backend: str, change: Callable[[Any, Any], Any]
) -> None:
    mlp = importlib.import_module(f"mmspec_{backend}.network.decoder").MLP
    original = mlp.__call__
    monkeypatch.setattr(mlp, "__call__", lambda self, x, *rest: change(x, original(self, x, *rest)))
