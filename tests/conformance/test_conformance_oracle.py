"""Every backend computes what transformers computes: features, logits, and what generate says."""

import numpy as np
import pytest
import torch

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.chat.plugins import load_backend
from mmspec.decoding.contract import Segment
from mmspec.prompt.images import Picture
from support import factory
from support import sequence_helpers as helpers
from support.conformance_cases import in_turn, picture, prompt_of
from support.factory_layouts import change_json, change_tensors
from support.sequence_helpers import flat
from support.transformers_oracle import generated, transformers_model

VARIANTS = {
    "transformers": {"layout": "transformers", "sharded": True, "key_value_heads": 2},
    "one key head": {"key_value_heads": 1, "heads": 2},
    "tied": {"tied": True, "layout": "transformers", "key_value_heads": 1},
    "padded": {"vocab_size": 384},
    "small patches": {"image_size": 48, "patch_size": 8},
    "large patches": {"image_size": 42, "patch_size": 14},
    "pixels left over": {"image_size": 37},
    "last layer": {"image_size": 30, "feature_layer": -1},
    "first layer, class token": {"feature_layer": 1, "select_strategy": "full"},
    "deeper": {"layers": 3, "hidden_size": 128, "heads": 4},
}
BUDGET = 14
TEXTS = ("What is in the two pictures?", "And which one is larger?")


@pytest.fixture(scope="session", params=VARIANTS)
def path(request, checkpoints):
    """One checkpoint per layout."""
    folder = checkpoints / f"layout {request.param}"
    sizes = VARIANTS[request.param]
    return folder if folder.exists() else factory.tiny_llava(folder, seed=3, **sizes)


@pytest.fixture(scope="session")
def theirs(path):
    """transformers' model of it."""
    return transformers_model(path)


@pytest.fixture(scope="module")
def ours(path, backend):
    """The backend's model of it."""
    return load_backend(backend).load(path, device="cpu")


def expected(model, chat):
    """What generate says to the last question, its pixel values ours (held to theirs elsewhere)."""
    target = chat.models.target
    ids, pictures = [], []
    for part in (part for chunk in prompt_of(chat) for part in chunk.parts):
        if isinstance(part, Picture):
            pictures.append(torch.tensor(target.features.preprocessing.pixels(part.image)))
            ids += [factory.IMAGE_TOKEN_ID] * target.model.config.image_tokens
        else:
            ids += part
    return generated(model, ids, BUDGET, pixel_values=torch.stack(pictures))


@pytest.mark.parametrize(("backend", "path"), in_turn(VARIANTS), indirect=True)
def test_two_turns_are_generates_own(path, theirs, backend):
    """With the target as its own draft, half blind, so that some of its tokens are rejected."""
    engine = load(path, path, backend=backend)
    size = engine.target.model.config.vision.image_size
    chat = engine.chat(Options(drafting="MT", gamma=4, max_new_tokens=BUDGET))
    shown = [(picture(1, size), picture(2, size)), (picture(3, size),)]
    for text, pictures in zip(TEXTS, shown, strict=True):
        answer = chat.reply(text, pictures).token_ids
        assert answer == expected(theirs, chat)[: len(answer)]
    assert len(set(answer)) > 3


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


@pytest.mark.parametrize(
    ("backend", "layout"), in_turn(["hub", "transformers"]), indirect=["backend"]
)
def test_a_llama_alone_equals_generate(backend, tmp_path, layout):
    """Over a prompt of several chunks."""
    sizes = {"seed": 5, "key_value_heads": 2, "positions": 2048}
    path = factory.tiny_llama(tmp_path / "a", layout=layout, **sizes)
    tokens = [4 + place * place % 300 for place in range(1200)]
    target = helpers.target(load_backend(backend).load(path), Segment([tokens]))
    original = transformers_model(path)
    with torch.inference_mode():
        logits = original(input_ids=torch.tensor([tokens])).logits[0, -1]
    np.testing.assert_allclose(target.logits(), logits, atol=5e-5)
    assert helpers.plain(target, 20) == generated(original, tokens, 20)


SCALED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALED |= {"original_max_position_embeddings": 64}
QUESTION = "how many shapes are in the picture and what is on the left of the circle? " * 3


def assert_says_what_transformers_says(path, backend):
    """The engine, whose answer, drafted by the model itself, is generate's own."""
    engine = load(path, path, backend=backend)
    chat = engine.chat(Options(drafting="T", gamma=3, max_new_tokens=24))
    answer = chat.reply(QUESTION)
    [prompt] = prompt_of(chat)
    expected = generated(transformers_model(path), prompt.parts[0], len(answer.token_ids))
    assert list(answer.token_ids) == expected
    return engine


def test_an_output_matrix_beside_the_tied_embedding_is_used(tmp_path, backend):
    path = factory.tiny_llama(tmp_path / "model", tied=True, seed=5)
    own = np.random.default_rng(1).normal(size=(320, 64)).astype(np.float32)
    change_tensors(path, lambda tensors: tensors | {"lm_head.weight": own})
    engine = assert_says_what_transformers_says(path, backend)
    assert any("its own output matrix is used" in note for note in engine.notes)
    name = "model.embed_tokens.weight"
    change_tensors(path, lambda tensors: tensors | {"lm_head.weight": tensors[name]})
    assert load(path, "none", backend=backend).target.model.config.text.tie_word_embeddings


@pytest.mark.parametrize(
    ("backend", "key"), in_turn(["rope_scaling", "rope_parameters"]), indirect=["backend"]
)
def test_llama_3_s_rotary_positions(tmp_path, backend, key):
    path = factory.tiny_llama(tmp_path / "model", seed=6, positions=512)
    rope = SCALED | {"rope_theta": 10_000.0} if key == "rope_parameters" else SCALED
    change_json(path / "config.json", **{key: rope})
    engine = assert_says_what_transformers_says(path, backend)
    assert engine.target.model.config.text.rotary_scaling
