"""Every backend computes what transformers computes: features, projections and logits."""

import numpy as np
import pytest
import torch

from mmspec.chat.plugins import load_backend
from mmspec.decoding.contract import Segment
from support import factory, transformers_oracle
from support import sequence_helpers as helpers
from support.segments import flat

VARIANTS = {
    "plain": {},
    "grouped queries, pixels left over": {"key_value_heads": 2, "image_size": 37},
    "one key head, tied": {"key_value_heads": 1, "tied": True},
    "nine patches": {"image_size": 42, "patch_size": 14},
    "last layer": {"image_size": 30, "feature_layer": -1},
    "first layer by number, class token": {"feature_layer": 1, "select_strategy": "full"},
}


@pytest.fixture(scope="module", params=VARIANTS)
def paths(request, tmp_path_factory):
    """The same weights in the hub's layout and in transformers' own."""
    folder, sizes = tmp_path_factory.mktemp("parity"), VARIANTS[request.param]
    ours = factory.tiny_llava(folder / "hub", seed=3, **sizes)
    return ours, factory.tiny_llava(folder / "own", seed=3, layout="transformers", **sizes)


@pytest.fixture(scope="module")
def theirs(paths):
    """transformers' model."""
    return transformers_oracle.transformers_model(paths[1])


@pytest.fixture(scope="module")
def ours(paths, backend):
    """The backend's model."""
    return load_backend(backend).load(paths[0], device="cpu")


@torch.inference_mode()
def test_vision_and_projector_equal_transformers(ours, theirs):
    images = helpers.pixels(ours.config.vision.image_size)
    features = ours.encode(images[0])
    states = theirs.model.vision_tower(torch.tensor(images), output_hidden_states=True)
    hidden = states.hidden_states[theirs.config.vision_feature_layer][0]
    expected = hidden[1:] if ours.config.vision.drops_class_token else hidden
    assert features.positions == len(expected) == ours.config.image_tokens
    np.testing.assert_allclose(features.numpy(), expected, atol=2e-5)
    projected = theirs.model.multi_modal_projector(expected)
    np.testing.assert_allclose(ours.project(features), projected, atol=2e-5)


@torch.inference_mode()
@pytest.mark.parametrize("count", [0, 1, 2])
def test_logits_equal_transformers(ours, theirs, count):
    """Also where a sequence is cut right after its last image."""
    images = helpers.pixels(ours.config.vision.image_size, count)
    segment = helpers.prompt([ours.encode(image) for image in images])
    target, ids = helpers.target(ours, segment), flat(segment)
    inputs = {"pixel_values": torch.tensor(images)} if count else {}
    expected = theirs(input_ids=torch.tensor([ids]), **inputs).logits[0]
    np.testing.assert_allclose(target.logits(), expected[-1], atol=2e-5)
    if count:
        end = len(ids) - ids[::-1].index(helpers.IMAGE)
        target.rewind(end)
        np.testing.assert_allclose(target.logits(), expected[end - 1], atol=2e-5)


@pytest.mark.parametrize("layout", ["hub", "transformers"])
def test_a_llama_alone_equals_generate(backend, tmp_path, layout):
    """Over a prompt of several chunks."""
    sizes = {"seed": 5, "key_value_heads": 2, "positions": 2048}
    ours = factory.tiny_llama(tmp_path / "a", layout=layout, **sizes)
    theirs = factory.tiny_llama(tmp_path / "b", layout="transformers", **sizes)
    tokens = [4 + place * place % 300 for place in range(1200)]
    model = load_backend(backend).load(ours, device="cpu")
    target = helpers.target(model, Segment([tokens]))
    original = transformers_oracle.transformers_model(theirs)
    with torch.inference_mode():
        logits = original(input_ids=torch.tensor([tokens])).logits[0, -1]
    np.testing.assert_allclose(target.logits(), logits, atol=5e-5)
    assert helpers.plain(target, 20) == transformers_oracle.generated(original, tokens, 20)
