"""Heads written for other engines: the same tensors, the configs those engines read."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from mmspec.checkpoints.head_config import read_head_config
from mmspec.checkpoints.head_export import LAYOUTS, export_head
from mmspec.checkpoints.head_manifest import plan_head, read_draft_ids
from mmspec.ground.errors import UsageError
from support.factory_heads import BLOCKS, KINDS, tiny_head

OPTIONS = [
    {"rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}},
    {},
    {"draft_vocab_size": 100, "fc_norm": True, "norm_output": True},
    {"norm_before_residual": True, "norm_before_fc": True},
    {"qk_norm": True, "num_key_value_heads": 2, "head_dim": 32},
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("given", OPTIONS)
def test_an_exported_head_is_the_same_head(tmp_path, llava_path, layout, given):
    head = tiny_head(tmp_path / "head", "eagle3", **given)
    export_head(head, llava_path, layout, tmp_path / "out", "some/target")
    before, after = read_head_config(head), read_head_config(tmp_path / "out")
    assert (after.eagle3, after.layer) == (before.eagle3, before.layer)
    assert read_draft_ids(tmp_path / "out", after) == read_draft_ids(head, before)
    for (name, old), (again, new) in zip(
        sorted(plan_head(head, before).items()),
        sorted(plan_head(tmp_path / "out", after).items()),
        strict=True,
    ):
        assert name == again
        assert (old.tensor.dtype, content(old)) == (new.tensor.dtype, content(new))


def content(source):
    stored = source.tensor
    return stored.file.read_bytes()[stored.start : stored.end]


def test_speculators_get_layers_counted_from_the_embedding(tmp_path, llava_path):
    head = tiny_head(tmp_path / "head", "eagle3", draft_vocab_size=100, norm_output=True)
    export_head(head, llava_path, "speculators", tmp_path / "out", "some/target")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["speculators_model_type"] == "eagle3"
    assert config["eagle_aux_hidden_state_layer_ids"] == [0, 1, 2]
    assert config["draft_vocab_size"] == 100
    assert (config["norm_output"], config["fc_norm"]) == (True, False)
    verifier = config["speculators_config"]["verifier"]
    architectures = ["LlavaForConditionalGeneration"]
    assert verifier == {"name_or_path": "some/target", "architectures": architectures}
    assert config["transformer_layer_config"]["num_hidden_layers"] == 1
    assert set(load_file(tmp_path / "out" / "model.safetensors")) >= {"d2t", "t2d", "norm.weight"}


def test_a_whole_vocabulary_has_a_map_for_sglang_alone(tmp_path, llava_path):
    """vLLM and speculators refuse one, and SGLang's loader demands it."""
    head = tiny_head(tmp_path / "head", "eagle3")
    export_head(head, llava_path, "speculators", tmp_path / "a", "some/target")
    assert not {"d2t", "t2d"} & set(load_file(tmp_path / "a" / "model.safetensors"))
    export_head(head, llava_path, "sglang", tmp_path / "b", "some/target")
    tensors = load_file(tmp_path / "b" / "model.safetensors")
    assert tensors["t2d"].all()
    assert tensors["t2d"].dtype == np.bool_
    assert tensors["d2t"].tolist() == [0] * 320
    assert "midlayer.hidden_norm.weight" in tensors
    config = json.loads((tmp_path / "b" / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [-1, 0, 1]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in (*BLOCKS, "eagle3")])
def test_heads_that_are_fed_images_are_refused_with_what_to_train(
    tmp_path, llava_path, layout, kind
):
    head = tiny_head(tmp_path / "head", kind)
    reason = "fed the images' features" if kind == "eagle" else f"no such {kind} head"
    with pytest.raises(UsageError, match=f"{reason}.*train --kind eagle3"):
        export_head(head, llava_path, layout, tmp_path / "out", "some/target")
    assert not (tmp_path / "out").exists()


SLIDING = {"layer_types": ["sliding_attention"] * 2, "use_sliding_window": True}
BLOCK_OPTIONS = [
    ("dflash", {}, LAYOUTS),
    ("dflash", {"rope_scaling": {"mrope_section": [8, 4, 4]}}, LAYOUTS),
    ("dflash", SLIDING | {"sliding_window": 9, "is_causal": False}, ("sglang",)),
    ("dflash", SLIDING | {"sliding_window": 9, "window_before_block": True}, ("speculators",)),
    ("dflash", {"draft_vocab_size": 100}, ("speculators",)),
    ("dspark", {"markov_head_type": "gated"}, LAYOUTS),
    ("dspark", {"markov_head_type": "rnn", "enable_confidence_head": False}, LAYOUTS),
    ("dspark", {"markov_rank": 0, "confidence_head_with_markov": False}, ("speculators",)),
    ("dspark", {"sample_from_anchor": False}, ("speculators",)),
    ("dflash", {"image_context": False}, ()),
    ("dflash", {"is_causal": True}, ("sglang",)),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("kind", "given", "allowed"), BLOCK_OPTIONS)
def test_an_exported_block_drafter_is_the_same_or_refused(
    tmp_path, llava_path, kind, given, allowed, layout
):
    head, out = tiny_head(tmp_path / "head", kind, **given), tmp_path / "out"
    if layout not in allowed:
        with pytest.raises(UsageError, match=f"train --kind {kind} with its defaults"):
            export_head(head, llava_path, layout, out, "some/target")
        return
    export_head(head, llava_path, layout, out, "some/target")
    before, after = read_head_config(head), read_head_config(out)
    assert (after.block, after.layer) == (before.block, before.layer)
    old, new = (load_file(place / "model.safetensors") for place in (head, out))
    assert all(np.array_equal(old[name], new[name]) for name in old | new)


def test_vllm_is_not_told_that_full_layers_are_causal(tmp_path, llava_path):
    head, out = tiny_head(tmp_path / "head", "dflash"), tmp_path / "out"
    export_head(head, llava_path, "speculators", out, "some/target")
    assert "sliding_window_non_causal" not in json.loads((out / "config.json").read_text())
