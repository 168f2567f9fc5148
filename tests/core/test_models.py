"""Published models: cards, manifests, documented memory, and which of them is recommended."""

import json
import re
from math import prod
from pathlib import Path

import pytest

from mmspec.checkpoints import recommendation
from mmspec.checkpoints.cards import load_cards
from mmspec.checkpoints.config import ModelConfig, read_config
from mmspec.checkpoints.manifest import PRECISIONS, cache_bytes, manifest, state_bytes, weight_bytes
from mmspec.checkpoints.recommendation import advice, best_here, recommend
from mmspec.families.qwen3_vl import Qwen3VLVision
from support.random_checkpoints import llava, text

BACKENDS = Path(__file__).parents[2] / "docs" / "backends.md"
CARDS = load_cards()


@pytest.mark.parametrize("name", CARDS)
def test_pairs_are_drafts_that_serve_their_target(name):
    chosen = CARDS[name]
    assert chosen.name == name
    if chosen.pair is not None:
        assert name in CARDS[chosen.pair].serves
    assert (chosen.kind == "target") >= (chosen.pair is not None)
    assert {CARDS[target].kind for target in chosen.serves} <= {"target"}
    assert chosen.kind == "target" or chosen.serves


PARAMETERS = {
    "llava-1.5-7b": 7.06e9,
    "llava-1.5-13b": 13.35e9,
    "qwen2.5-vl-3b": 3.75e9,
    "qwen2.5-vl-7b": 8.29e9,
    "qwen3-0.6b": 0.596e9,
    "qwen3-1.7b": 1.72e9,
    "qwen3-4b": 4.02e9,
    "qwen3-8b": 8.19e9,
    "qwen3-vl-2b": 2.13e9,
    "qwen3-vl-4b": 4.44e9,
    "qwen3-vl-8b": 8.77e9,
    "qwen3-vl-32b": 33.4e9,
    "smollm2-135m": 0.1345e9,
}
"""As the repositories on the hub state them."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_configs_of_cards_have_as_many_parameters_as_the_models(name):
    assert weight_bytes(CARDS[name].model, 16) / 2 == pytest.approx(PARAMETERS[name], rel=0.01)


BILLIONS = {f"qwen3.5-{size}b": float(size) for size in ("0.8", "4", "27")}
BILLIONS |= {"qwen3.8-27b": 27.0}
"""As the names say, without embeddings or with them: up to a seventh more."""


@pytest.mark.parametrize("name", BILLIONS)
def test_sizes_without_a_file_are_those_of_transformers_class(name):
    import torch
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    chosen = CARDS[name]
    with torch.device("meta"):
        model = Qwen3_5ForConditionalGeneration(Qwen3_5Config(**chosen.config))
    count = sum(weight.numel() for weight in model.parameters())
    assert weight_bytes(chosen.model, 16) == 2 * count
    assert 1 <= count / 1e9 / BILLIONS[name] < 8 / 7
    assert "read from no file" in chosen.note


IMAGE_TOKENS = 1280
COLUMNS = ["qwen3-vl-2b", "qwen3-vl-4b", "qwen3-vl-8b", "qwen3-vl-32b"]
COLUMNS += ["qwen2.5-vl-3b", "qwen2.5-vl-7b"]
COLUMNS += [f"qwen3.5-{size}b" for size in ("0.8", "2", "4", "9", "27")]


def test_the_documented_memory_of_qwen_s_models_is_that_of_their_cards():
    models = [CARDS[name].model for name in COLUMNS]
    rows = {
        f"{bits} bits": [f"{weight_bytes(model, bits) / 1e9:.1f}" for model in models]
        for bits in PRECISIONS
    }
    rows[f"{IMAGE_TOKENS} tokens"] = [f"{image_bytes(model) / 1e9:.2f}" for model in models]
    states = [f"{state_bytes(model.text) / 1e9:.2f}" for model in models[-5:]]
    rows["a state"] = [*["-"] * 6, *states]
    page = BACKENDS.read_text()
    for name, cells in rows.items():
        assert f"| {name} | {' | '.join(cells)} |" in page


def image_bytes(config: ModelConfig) -> int:
    """Bytes of keys, values and features, the towers' further levels included, in 16 bits."""
    vision = config.vision
    levels = 1 + (len(vision.deepstack) if isinstance(vision, Qwen3VLVision) else 0)
    features = IMAGE_TOKENS * config.text.hidden_size * levels * 2
    return cache_bytes(config.text, IMAGE_TOKENS) + features


def test_the_documented_memory_of_llava_and_its_draft_is_that_of_their_shapes(tmp_path):
    """In 16 bits, every matrix of the target in 4 bits with two numbers of 16 for 64."""
    (tmp_path / "config.json").write_text(json.dumps(llava(text("draft-68m"))))
    target, draft = CARDS["llava-1.5-7b"].model, read_config(tmp_path)
    sizes = {name: 2 * prod(shape) for name, shape in manifest(draft).items()}
    tower = sum(size for name, size in sizes.items() if name.startswith("vision_tower"))
    prompt, answer, branches, rows, own = 576 + 64, 512, 4, 6, target.text
    widest = prompt * (4 * own.hidden_size + 3 * own.intermediate_size) * 2
    scores = prompt**2 * own.num_attention_heads * 4 + 4 * own.vocab_size * (rows + branches)
    parts = {
        "target": sum(prod(s) * (4.5 / 8 if len(s) == 2 else 2) for s in manifest(target).values()),
        "target's cache": cache_bytes(own, prompt + answer),
        "draft": sum(sizes.values()) - tower,
        "draft's tower": tower,
        "draft's cache": branches * cache_bytes(draft.text, prompt + answer),
        "activations": widest + scores,
    }
    found = re.findall(r"^\| ([a-z' ]+?)[,:(].*?\| ([\d.]+) GB \|$", BACKENDS.read_text(), re.M)
    documented = {name.strip(): float(value) for name, value in found}
    assert documented == {name: round(value / 1e9, 2) for name, value in parts.items()}


GIB = 2**30


@pytest.mark.parametrize(
    ("here", "taken"),
    [
        ((), "mini"),
        (("llava-1.5-7b",), "llava-1.5-7b"),
        (("qwen3-vl-2b", "qwen3-vl-8b", "llava-1.5-7b"), "qwen3-vl-8b"),
        (("qwen3-8b",), "mini"),
    ],
)
def test_auto_takes_the_best_for_images_that_is_here(monkeypatch, here, taken):
    monkeypatch.setattr(recommendation, "present", lambda card, _: card.name in here)
    assert best_here("mlx") == taken


@pytest.mark.parametrize(
    ("backend", "memory", "name"),
    [
        ("mlx", 2, "mini"),
        ("mlx", 16, "qwen3-vl-8b"),
        ("torch", 24, "qwen3.5-4b"),
        ("torch", 48, "qwen3.5-9b"),
    ],
)
def test_the_best_pair_that_fits_is_recommended(backend, memory, name):
    assert recommend(backend, memory * GIB) == name
    line = advice(backend, memory * GIB)
    assert name in line
    assert backend in line or name == "mini"
    assert "\n" not in line


def test_the_page_of_the_chat_names_the_same():
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")
    sentence = page.split("on Macs of ")[1].split("`.")[0] + "`"
    memories, names = sentence.split(" GB ")
    sizes = [int(size) for size in re.findall(r"\d+", memories)]
    named = re.findall(r"`([^`]+)`", names)
    assert named == [recommend("mlx", size * GIB) for size in sizes]
