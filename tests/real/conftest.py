"""Real weights: MMSPEC_SMOLLM2 names the directory that `smollm2.py` writes."""

import os
from pathlib import Path

import pytest
from prompts import prompts

COUNT = int(os.environ.get("MMSPEC_REAL_PROMPTS", "100"))


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct in float32."""
    if directory := os.environ.get("MMSPEC_SMOLLM2"):
        return Path(directory)
    pytest.skip("no real weights: `make real` writes them and sets MMSPEC_SMOLLM2")


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Prompts of every kind, in four languages."""
    return prompts(COUNT)
