"""Llamas whose config or files differ from the plain ones say what transformers says."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from support import factory
from support.transformers_oracle import generated, transformers_model

SCALED = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
QUESTION = "how many shapes are in the picture and what is on the left of the circle? " * 3


def changed(path, **values):
    """The checkpoint with other values in its config.json."""
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | values))
    return path


def assert_says_what_transformers_says(path, backend):
    """The engine, whose answer, drafted by the model itself, is generate's own."""
    engine = load(str(path), str(path), backend=backend)
    chat = engine.chat(Options(drafting="T", gamma=3, max_new_tokens=24))
    answer = chat.reply(QUESTION)
    [prompt, _] = engine.target.chunks(chat.conversation)
    expected = generated(transformers_model(path), prompt.parts[0], len(answer.token_ids))
    assert list(answer.token_ids) == expected
    return engine


def test_an_output_matrix_beside_the_tied_embedding_is_used(tmp_path, backend):
    path = factory.tiny_llama(tmp_path / "model", tied=True, seed=5)
    tensors = load_file(path / "model.safetensors")
    [name] = [name for name in tensors if name.endswith("embed_tokens.weight")]
    own = np.random.default_rng(1).normal(size=tensors[name].shape).astype(np.float32)
    prefix = name.removesuffix("model.embed_tokens.weight")
    save_file(tensors | {f"{prefix}lm_head.weight": own}, path / "model.safetensors")
    engine = assert_says_what_transformers_says(path, backend)
    assert any("its own output matrix is used" in note for note in engine.notes)
    copy = tensors[name]
    save_file(tensors | {f"{prefix}lm_head.weight": copy}, path / "model.safetensors")
    assert load(str(path), "none", backend=backend).target.model.config.text.tie_word_embeddings


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_llama_3_s_rotary_positions(tmp_path, backend, key):
    path = factory.tiny_llama(tmp_path / "model", seed=6, positions=512)
    rope = SCALED | {"rope_theta": 10_000.0} if key == "rope_parameters" else SCALED
    engine = assert_says_what_transformers_says(changed(path, **{key: rope}), backend)
    assert engine.target.model.config.text.rotary_scaling


def test_the_scaled_frequencies_are_transformers_own(tmp_path):
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    from mmspec.checkpoints.config import read_config

    path = changed(factory.tiny_llama(tmp_path / "model"), rope_scaling=SCALED, head_dim=32)
    config = AutoConfig.from_pretrained(path)
    plain, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    scaling, theta = read_config(path).text.rotary_scaling, config.rope_parameters["rope_theta"]
    steps = torch.arange(0, 32, 2, dtype=torch.int64).float()
    found = scaling.scaled((1.0 / theta ** (steps / 32)).numpy())
    np.testing.assert_allclose(found, plain.numpy(), rtol=2e-7)  # one bit
