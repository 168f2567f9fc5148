"""The cards are consistent with each other, and reading them needs nothing heavy."""

from pathlib import Path

import pytest

from mmspec.checkpoints.cards import load_cards
from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.manifest import PRECISIONS, cache_bytes, state_bytes, weight_bytes

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


@pytest.mark.parametrize("bits", PRECISIONS)
def test_the_documented_memory_of_weights_is_that_of_the_cards(bits):
    sizes = [f"{weight_bytes(CARDS[name].model, bits) / 1e9:.1f}" for name in COLUMNS]
    assert f"| {bits} bits | {' | '.join(sizes)} |" in BACKENDS.read_text()


def test_the_documented_memory_of_an_image_and_of_a_state_is_that_of_the_cards():
    page = BACKENDS.read_text()
    images = [f"{image_bytes(CARDS[name].model) / 1e9:.2f}" for name in COLUMNS]
    states = [f"{state_bytes(CARDS[name].model.text) / 1e9:.2f}" for name in COLUMNS[-5:]]
    assert f"| {IMAGE_TOKENS} tokens | {' | '.join(images)} |" in page
    assert f"| a state | {' | '.join(['-'] * 6 + states)} |" in page


def image_bytes(config: ModelConfig) -> int:
    """Bytes of keys, values and features, the towers' further levels included, in 16 bits."""
    assert config.vision
    levels = 1 + config.vision.deepstack_layers
    features = IMAGE_TOKENS * config.text.hidden_size * levels * 2
    return cache_bytes(config.text, IMAGE_TOKENS) + features
