"""Configs read as transformers reads them, and refusals that name file, key and value."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig

from mmspec.checkpoints.config import Quantization, read_config
from mmspec.ground.errors import CheckpointError
from support.factory_layouts import TEXT_SIZES, VISION_SIZES
from support.random_checkpoints import llava
from support.random_checkpoints import text as text_config

LLAVA = {"model_type": "llava"}
HUB_7B = llava(text_config("vicuna-7b"))
CONFIGS: dict[str, dict[str, Any]] = {
    "hub 7b": HUB_7B,
    "nothing but the type": LLAVA,
    "rope theta beside": LLAVA | {"text_config": {"rope_theta": 500000.0}},
    "rope parameters": LLAVA
    | {"text_config": {"rope_parameters": {"rope_type": "default", "rope_theta": 77.0}}},
    "tied on top": LLAVA | {"tie_word_embeddings": True},
    "class token kept": LLAVA | {"vision_feature_select_strategy": "full"},
    "nulls": LLAVA | {"text_config": {"rope_scaling": None, "num_key_value_heads": None}},
    "head dimension": LLAVA | {"text_config": {"head_dim": 64, "num_key_value_heads": 8}},
    "llama": {"model_type": "llama", "hidden_size": 768, "num_attention_heads": 12},
    "llama of today": {"model_type": "llama", "rope_parameters": {"rope_theta": 5.0}},
    "bfloat16": LLAVA | {"dtype": "bfloat16"},
}


def written(path: Path, config: object) -> Path:
    (path / "config.json").write_text(json.dumps(config))
    return path


def assert_reads_like_transformers(path: Path) -> None:
    ours, theirs = read_config(path), AutoConfig.from_pretrained(path)
    text = theirs.get_text_config()
    for key in (*TEXT_SIZES, "head_dim"):
        assert getattr(ours.text, key) == getattr(text, key), key
    assert ours.text.rope_theta == text.rope_parameters["rope_theta"]
    assert ours.text.tie_word_embeddings == theirs.tie_word_embeddings
    named = theirs.dtype or text.dtype
    assert ours.dtype == (str(named).removeprefix("torch.") if named else None)
    assert ours.eos_token_ids == (text.eos_token_id,)
    if ours.family.model_type != "llava":
        return
    for key in (*VISION_SIZES, "num_channels", "layer_norm_eps", "hidden_act"):
        assert getattr(ours.vision, key) == getattr(theirs.vision_config, key), key
    assert ours.image_token_id == theirs.image_token_index
    assert ours.vision.feature_layer == theirs.vision_feature_layer
    assert ours.vision.drops_class_token == (theirs.vision_feature_select_strategy == "default")


@pytest.mark.parametrize("name", CONFIGS)
def test_hand_written_configs(tmp_path, name):
    assert_reads_like_transformers(written(tmp_path, CONFIGS[name]))


def test_images_have_the_nearest_token_where_theirs_has_no_embedding(tmp_path):
    for token, nearest in ((7, 7), (32000, 31999), (-200, 0)):
        config = read_config(written(tmp_path, LLAVA | {"image_token_index": token}))
        assert (config.image_token_id, config.image_id) == (token, nearest)


def test_mlx_quantization(tmp_path):
    plain = {"group_size": 32, "bits": 8}
    for block in (plain, plain | {"mode": "affine", "vision_tower": False}):
        for key in ("quantization", "quantization_config"):
            config = read_config(written(tmp_path, HUB_7B | {key: block}))
            assert config.quantization == Quantization(bits=8, group_size=32)
    assert read_config(written(tmp_path, HUB_7B)).quantization is None
    mixed = {"bits": 4, "lm_head": {"bits": 8, "group_size": 32}}
    read = read_config(written(tmp_path, HUB_7B | {"quantization": mixed})).quantization
    assert (read.of("lm_head.weight"), read.of("other.weight").bits) == (Quantization(8, 32), 4)


def test_stop_tokens_are_those_of_generation(tmp_path):
    path = written(tmp_path, HUB_7B | {"text_config": {"eos_token_id": 7}})
    assert read_config(path).eos_token_ids == (7,)
    for value, expected in (([2, 32007], (2, 32007)), (5, (5,)), (None, (7,))):
        (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": value}))
        assert read_config(path).eos_token_ids == expected


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "qwen3_5_text", "llama"])
def test_a_family_without_a_stop_token_of_its_own_takes_none(tmp_path, kind):
    """Llama's, 2, is a number sign in Qwen's vocabulary."""
    path = written(tmp_path, {"model_type": kind})
    theirs = AutoConfig.from_pretrained(path).eos_token_id
    assert read_config(path).eos_token_ids == (() if theirs is None else (theirs,))


def test_a_stop_token_beside_the_decoder_s_block_counts(tmp_path):
    path = written(tmp_path, LLAVA | {"eos_token_id": [7, 8]})
    assert read_config(path).eos_token_ids == (7, 8)


def inside(block: str, **values: object) -> dict[str, Any]:
    return LLAVA | {block: values}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, 'model_type is missing, but must be "llava" or "llama"'),
        (inside("text_config", model_type="mistral"), 'text_config.model_type is "mistral"'),
        (LLAVA | {"multimodal_projector_bias": False}, "multimodal_projector_bias is false"),
        (LLAVA | {"vision_feature_layer": [-2, -5]}, r"vision_feature_layer is \[-2, -5\]"),
        (LLAVA | {"vision_feature_layer": -26}, "vision_feature_layer is -26.* >= -25"),
        (LLAVA | {"mm_vision_tower": "openai/clip"}, "mm_vision_tower.*llava-hf"),
        (inside("text_config", rope_scaling={"type": "linear"}), 'rope_scaling.type is "linear"'),
        (inside("text_config", rope_parameters={"rope_type": "yarn"}), 'rope_type is "yarn"'),
        (inside("text_config", hidden_size=100), "a multiple of num_attention_heads .32"),
        (inside("text_config", num_key_value_heads=5), "a divisor of num_attention_heads"),
        (inside("vision_config", patch_size=500), "patch_size is 500, .* at most image_size"),
        (LLAVA | {"quantization": {"bits": 7}}, "quantization.bits is 7, but must be 2 or 3 or 4"),
        (LLAVA | {"quantization": {"a.b": {"bits": 1}}}, "quantization.a.b.bits is 1"),
        (LLAVA | {"quantization": {"a.b": {"mode": "nvfp4"}}}, 'a.b.mode is "nvfp4", but must be'),
        (inside("quantization_config", quant_method="bitsandbytes"), 'method is "bitsandbytes"'),
        (inside("text_config", num_hidden_layers=10**9), "num_hidden_layers is 10+, .* <= 1000"),
        (inside("text_config", head_dim=63), "head_dim is 63, but must be even"),
        (inside("text_config", rms_norm_eps=1e300), "rms_norm_eps is 1e.300"),
    ],
)
def test_refusals_name_the_key(tmp_path, config, message):
    with pytest.raises(CheckpointError, match=message) as caught:
        read_config(written(tmp_path, config))
    assert str(tmp_path / "config.json") in str(caught.value)
    assert "\n" not in str(caught.value)
