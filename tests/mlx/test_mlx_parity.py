"""The MLX backend computes what transformers and mlx-lm compute."""

import mlx_oracle as oracle
import numpy as np
import pytest
import torch

import factory
from mmspec.errors import UsageError
from mmspec.seam import Segment
from mmspec_mlx.backend import MlxBackend

VARIANTS = {
    "as llava-1.5": {},
    "grouped queries, pixels left over": {"key_value_heads": 2, "image_size": 37},
    "one key head, tied, nine patches": {
        "key_value_heads": 1,
        "tied": True,
        "image_size": 42,
        "patch_size": 14,
    },
    "last layer, class token": {"feature_layer": -1, "select_strategy": "full"},
    "first layer by number": {"feature_layer": 1},
}


@pytest.fixture(scope="module", params=VARIANTS.values(), ids=VARIANTS)
def pair(request, tmp_path_factory):
    """One LLaVA, in our hands from the hub's layout and in transformers' from its own."""
    from transformers import LlavaForConditionalGeneration

    base = tmp_path_factory.mktemp("parity")
    hub = factory.tiny_llava(base / "hub", seed=4, **request.param)
    own = factory.tiny_llava(base / "own", seed=4, layout="transformers", **request.param)
    theirs = LlavaForConditionalGeneration.from_pretrained(own, dtype=torch.float32).eval()
    return MlxBackend().load(hub), theirs


def shown(model, count):
    """`count` images for us, a prompt with them, and what transformers is given."""
    size = model.config.vision.image_size
    images = [oracle.pixels(size, seed) for seed in range(count)]
    segment = oracle.prompt([model.encode(image) for image in images])
    inputs = {"input_ids": torch.tensor([segment.tokens])}
    if images:
        inputs["pixel_values"] = torch.tensor(np.stack(images))
    return segment, inputs


@torch.inference_mode()
def test_features_and_projections_equal_transformers(pair):
    model, theirs = pair
    image = oracle.pixels(model.config.vision.image_size)
    states = theirs.model.vision_tower(torch.tensor(image[None]), output_hidden_states=True)
    state = states.hidden_states[theirs.config.vision_feature_layer][0]
    expected = state[1:] if model.config.drops_class_token else state
    features = model.encode(image)
    assert features.positions == len(expected) == model.config.image_tokens
    np.testing.assert_allclose(features.numpy(), expected, atol=2e-5)
    projected = theirs.model.multi_modal_projector(expected)
    np.testing.assert_allclose(model.project(features), projected, atol=2e-5)


@torch.inference_mode()
@pytest.mark.parametrize("count", [0, 1, 3])
def test_logits_and_greedy_tokens_equal_transformers(pair, count):
    model, theirs = pair
    segment, inputs = shown(model, count)
    target = oracle.target(model, segment)
    np.testing.assert_allclose(target.logits(), theirs(**inputs).logits[0, -1], atol=2e-5)
    said = theirs.generate(
        **inputs,
        attention_mask=torch.ones_like(inputs["input_ids"]),
        do_sample=False,
        max_new_tokens=40,
        eos_token_id=-1,
        pad_token_id=0,
    )
    expected = said[0, len(segment.tokens) :].tolist()
    assert len(set(expected)) > 5
    assert oracle.plain(target, 40) == expected


@pytest.mark.parametrize("layout", ["hub", "transformers"])
def test_a_llama_alone_equals_mlx_lm(tmp_path, layout):
    """Over a prompt of several chunks; mlx-lm's own model, loader and cache."""
    import mlx.core as mx
    from mlx_lm.models.cache import make_prompt_cache
    from mlx_lm.utils import load_model

    sizes = {"key_value_heads": 2, "positions": 2048, "seed": 5}
    path = factory.tiny_llama(tmp_path / "a", layout=layout, **sizes)
    tokens = [4 + place * place % 300 for place in range(1100)]
    target = oracle.target(MlxBackend().load(path), Segment(tokens))
    theirs, _ = load_model(path)
    cache = make_prompt_cache(theirs)
    for token in [*oracle.plain(target, 5), None]:
        logits = theirs(mx.array([tokens]), cache=cache)[0, -1]
        if token is not None:
            assert int(mx.argmax(logits)) == token
            tokens = [token]
    np.testing.assert_allclose(target.logits(), np.array(logits), atol=2e-5)


def test_pooling_averages_squares_of_the_grid(llava_path):
    features = MlxBackend().load(llava_path).encode(oracle.pixels(32))
    grid = torch.tensor(features.numpy()).T.reshape(1, 64, 4, 4)
    for side in (1, 2):
        pooled = features.pooled(side * side)
        expected = torch.nn.functional.adaptive_avg_pool2d(grid, side).reshape(64, -1).T
        np.testing.assert_allclose(pooled.numpy(), expected, atol=1e-6)
        assert features.pooled(side * side) is pooled
    assert features.pooled(16) is features
    for positions in (0, 2, 9, 64):
        with pytest.raises(UsageError, match="a square whose side divides 4"):
            features.pooled(positions)
