"""Faults of a kernel: a row's bits depend on the rows beside it."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest


def bits_by_rows(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let a product give other bits if it has more than one row."""
    _after_mlp(monkeypatch, backend, lambda x, out: out * (1.01 if x.shape[-2] > 1 else 1))


def bits_by_company(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let a product give other bits if the other rows hold something else."""
    _after_mlp(monkeypatch, backend, lambda x, out: out + 0.01 * x.sum())


def _after_mlp(
    monkeypatch: pytest.MonkeyPatch, backend: str, change: Callable[[Any, Any], Any]
) -> None:
    mlp = importlib.import_module(f"mmspec_{backend}.network.decoder").MLP
    original = mlp.__call__
    monkeypatch.setattr(mlp, "__call__", lambda self, x, *rest: change(x, original(self, x, *rest)))
