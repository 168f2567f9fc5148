"""The PyTorch backend computes what transformers computes."""

import numpy as np
import pytest
import torch
import torch_oracle as oracle

import factory
from mmspec_torch.backend import TorchBackend

VARIANTS = {
    "plain": {},
    "grouped queries": {"key_value_heads": 2},
    "one key head, tied": {"key_value_heads": 1, "tied": True},
    "nine patches": {"image_size": 42, "patch_size": 14},
    "leftover pixels, last layer": {"image_size": 30, "feature_layer": -1},
    "first layer by number, class token": {"feature_layer": 1, "select_strategy": "full"},
}


@pytest.fixture(scope="module", params=VARIANTS.values(), ids=VARIANTS)
def pair(request, tmp_path_factory):
    """The same weights in our hands, from the hub's layout, and in transformers', from its own."""
    base = tmp_path_factory.mktemp("parity")
    ours = factory.tiny_llava(base / "hub", seed=3, **request.param)
    theirs = factory.tiny_llava(base / "own", seed=3, layout="transformers", **request.param)
    return TorchBackend().load(ours, device="cpu"), oracle.transformers_model(theirs)


@torch.inference_mode()
def test_vision_and_projector_equal_transformers(pair):
    model, theirs = pair
    images = oracle.pixels(model.config.vision.image_size)
    features = model.encode(images[0])
    layer, strategy = (
        theirs.config.vision_feature_layer,
        theirs.config.vision_feature_select_strategy,
    )
    hidden = theirs.model.vision_tower(
        torch.tensor(images), output_hidden_states=True
    ).hidden_states[layer][0]
    expected = hidden[1:] if strategy == "default" else hidden
    assert features.positions == len(expected) == model.config.image_tokens
    np.testing.assert_allclose(features.numpy(), expected, atol=2e-5)
    projected = theirs.model.multi_modal_projector(expected)
    np.testing.assert_allclose(model.project(features), projected, atol=2e-5)


@torch.inference_mode()
@pytest.mark.parametrize("count", [0, 1, 2])
def test_logits_equal_transformers(pair, count):
    model, theirs = pair
    images = oracle.pixels(model.config.vision.image_size, count)
    segment = oracle.prompt([model.encode(image) for image in images])
    inputs = {"pixel_values": torch.tensor(images)} if count else {}
    expected = theirs(input_ids=torch.tensor([segment.tokens]), **inputs).logits[0, -1]
    np.testing.assert_allclose(oracle.opened(model, segment).logits(), expected, atol=2e-5)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_greedy_tokens_equal_generate(pair, count):
    model, theirs = pair
    images = oracle.pixels(model.config.vision.image_size, count, seed=1)
    segment = oracle.prompt([model.encode(image) for image in images])
    inputs = {"pixel_values": torch.tensor(images)} if count else {}
    expected = oracle.generated(theirs, segment.tokens, 40, **inputs)
    assert len(set(expected)) > 5
    assert oracle.plain(oracle.opened(model, segment), 40) == expected


@pytest.mark.parametrize("layout", ["hub", "transformers"])
def test_a_llama_alone_equals_generate(tmp_path, layout):
    ours = factory.tiny_llama(tmp_path / "a", layout=layout, seed=5, key_value_heads=2)
    theirs = factory.tiny_llama(tmp_path / "b", layout="transformers", seed=5, key_value_heads=2)
    segment = oracle.prompt([])
    expected = oracle.generated(oracle.transformers_model(theirs), segment.tokens, 40)
    target = oracle.opened(TorchBackend().load(ours, device="cpu"), segment)
    assert oracle.plain(target, 40) == expected


@torch.inference_mode()
def test_a_prompt_of_several_chunks_equals_transformers(tmp_path):
    path = factory.tiny_llama(tmp_path / "a", layout="transformers", positions=2048)
    tokens = [4 + i * i % 300 for i in range(1200)]
    expected = oracle.transformers_model(path)(input_ids=torch.tensor([tokens])).logits[0, -1]
    target = oracle.opened(TorchBackend().load(path, device="cpu"), oracle.Segment(tokens))
    np.testing.assert_allclose(target.logits(), expected, atol=5e-5)


def test_pooling_averages_squares_of_the_grid(llava_path):
    model = TorchBackend().load(llava_path, device="cpu")
    features = model.encode(oracle.pixels(32)[0])
    grid = torch.tensor(features.numpy()).T.reshape(1, 64, 4, 4)
    for side in (1, 2):
        expected = torch.nn.functional.adaptive_avg_pool2d(grid, side).reshape(64, -1).T
        pooled = features.pooled(side**2)
        np.testing.assert_allclose(pooled.numpy(), expected, atol=1e-6)
        assert features.pooled(side**2) is pooled
    assert features.pooled(16) is features
