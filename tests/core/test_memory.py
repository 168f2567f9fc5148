"""The memory table of docs/backends.md, recomputed from configs and tensor headers."""

import re
from math import prod
from pathlib import Path

import pytest

from mmspec.checkpoints.config import ModelConfig, read_config
from mmspec.checkpoints.loading_plan import TensorSource, plan
from mmspec.checkpoints.manifest import cache_bytes
from support.full_size import FULL_SIZE

DOCS = Path(__file__).parents[2] / "docs" / "backends.md"
HALF = 2
PROMPT = 576 + 64
BUDGET = 512
BRANCHES = 4
ROWS = 6


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("memory")
    return {name: read(root / name, name) for name in ("llava-1.5-7b mlx", "lvlm68m hub")}


def read(directory, name) -> tuple[ModelConfig, dict[str, TensorSource]]:
    FULL_SIZE[name].write(directory)
    config = read_config(directory)
    return config, plan(directory, config)


def weight_bytes(sources, prefix=""):
    """Bytes on the device: packed as stored, floats in 16 bits."""
    chosen = [source for name, source in sources.items() if name.startswith(prefix)]
    packed = [source for source in chosen if source.packing]
    parts = [part for s in packed for part in (s.stored, s.packing.scales, s.packing.biases)]
    plain = (prod(source.shape) for source in chosen if not source.packing)
    return sum(part.end - part.start for part in parts) + HALF * sum(plain)


def activation_bytes(target, draft):
    """The largest layer's inputs, scores and MLP of one image's positions, and float32 logits."""
    text = target.text
    wide = PROMPT * (4 * text.hidden_size + 3 * text.intermediate_size) * HALF
    scores = PROMPT**2 * text.num_attention_heads * 4
    return wide + scores + 4 * text.vocab_size * (ROWS + BRANCHES)


def table(models):
    (target, weights), (draft, draft_weights) = models["llava-1.5-7b mlx"], models["lvlm68m hub"]
    positions = PROMPT + BUDGET
    tower = weight_bytes(draft_weights, "vision_tower")
    return {
        "target": weight_bytes(weights),
        "target's cache": cache_bytes(target.text, positions),
        "draft": weight_bytes(draft_weights) - tower,
        "draft's tower": tower,
        "draft's cache": BRANCHES * cache_bytes(draft.text, positions),
        "activations": activation_bytes(target, draft),
    }


def test_the_documented_figures_are_the_computed_ones(models):
    rows = re.findall(r"^\| ([a-z' ]+?)[,:(].*?\| ([\d.]+) GB \|$", DOCS.read_text(), re.MULTILINE)
    documented = {name.strip(): float(value) for name, value in rows}
    computed = {name: round(value / 1e9, 2) for name, value in table(models).items()}
    assert documented == computed
