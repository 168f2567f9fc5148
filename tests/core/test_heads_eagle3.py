"""EAGLE-3 heads by their files: three layouts, one head; what is required and refused."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mmspec.checkpoints.eagle3_config import default_layers
from mmspec.checkpoints.head_config import is_head, read_head_config
from mmspec.checkpoints.head_manifest import head_manifest, plan_head, read_draft_ids
from mmspec.ground.errors import CheckpointError
from support.factory_heads import specforge, speculators, tiny_head

LAYOUTS = {"specforge": specforge, "speculators": speculators}
IDS = np.linspace(2, 319, 100).astype(int).tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_published_layouts_are_one_head(tmp_path, layout):
    directory = LAYOUTS[layout](tmp_path / "head")
    config = read_head_config(directory)
    assert is_head(directory)
    assert (config.kind, config.hidden_size, config.vocab_size) == ("eagle3", 64, 320)
    assert config.eagle3.captured == (0, 1, 2)
    assert read_draft_ids(directory, config) == IDS
    own = tiny_head(tmp_path / "own", "eagle3", draft_vocab_size=100)
    assert head_manifest(config) == head_manifest(read_head_config(own))
    assert set(plan_head(directory, config)) == set(head_manifest(config))


def test_layers_are_counted_as_each_layout_counts_them(tmp_path):
    inner = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 15, 28]}}
    sglang = read_head_config(specforge(tmp_path / "a", **inner))
    vllm = read_head_config(
        speculators(tmp_path / "b", eagle_aux_hidden_state_layer_ids=[2, 16, 29])
    )
    assert sglang.eagle3.captured == vllm.eagle3.captured == default_layers(32)
    unnamed = read_head_config(specforge(tmp_path / "c", eagle_config=None))
    assert unnamed.eagle3.captured == ()
    assert unnamed.eagle3.layers(36) == (2, 18, 33)


CHUNKED, INTERLEAVED = (0, 0, 1, 1, 1, 2, 2, 2), (0, 1, 2, 0, 1, 2, 0, 0)
ROPES = {
    "type": ({"type": "mrope", "mrope_section": [2, 3, 3]}, CHUNKED),
    "rope_type": ({"rope_type": "mrope", "mrope_section": [2, 3, 3]}, CHUNKED),
    "by its sections": ({"rope_type": "default", "mrope_section": [2, 3, 3]}, CHUNKED),
    "interleaved": ({"mrope_section": [4, 2, 2], "mrope_interleaved": True}, INTERLEAVED),
    "plain": ({"rope_type": "default"}, ()),
}


@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_positions_of_three_rows_are_read_in_every_layout(tmp_path, layout, name):
    rope, axes = ROPES[name]
    given = {"layer": {"rope_scaling": rope}} if layout == "speculators" else {"rope_scaling": rope}
    config = read_head_config(LAYOUTS[layout](tmp_path / "head", **given))
    assert config.layer.rotary_axes == axes


def everything(directory):
    config = read_head_config(directory)
    return plan_head(directory, config), read_draft_ids(directory, config)


def test_unknown_and_doubled_tensors_are_named(tmp_path):
    directory = specforge(tmp_path / "head")
    tensors = load_file(directory / "model.safetensors")
    norm = tensors["norm.weight"]
    for name, said in (
        ("fc_norm.0.weight", r"fc_norm\.0\.weight is unexpected"),
        ("midlayer.extra.weight", r"midlayer\.extra\.weight is unexpected"),
        ("layers.0.hidden_norm.weight", "are one tensor twice"),
    ):
        save_file(tensors | {name: norm}, directory / "model.safetensors")
        with pytest.raises(CheckpointError, match=said):
            everything(directory)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"d2t": np.zeros(99, np.int64)}, r"d2t is int64 \[99\], expected integers \[100\]"),
        ({"d2t": np.zeros(100, np.float32)}, "d2t is F32, not"),
        ({"d2t": np.arange(100)[::-1].copy()}, "d2t does not map to 100 tokens below 320"),
        ({"d2t": np.full(100, 221)}, "d2t does not map to 100 tokens below 320"),
        ({"d2t": np.full(100, 3)}, "t2d and d2t do not name the same tokens"),
        ({"t2d": np.ones(100, np.bool_)}, r"t2d is bool \[100\], expected integers \[320\]"),
    ],
)
def test_vocabularies_that_contradict_themselves_are_refused(tmp_path, change, said):
    directory = specforge(tmp_path / "head")
    tensors = load_file(directory / "model.safetensors")
    save_file(tensors | change, directory / "model.safetensors")
    with pytest.raises(CheckpointError, match=said):
        everything(directory)


@pytest.mark.parametrize(
    ("layout", "given", "said"),
    [
        ("speculators", {"norm_before_fc": True, "fc_norm": True}, "fc_norm is true"),
        ("speculators", {"embed_requires_grad": True}, "embed_requires_grad is true"),
        ("speculators", {"draft_vocab_size": 400}, "draft_vocab_size is 400"),
        ("speculators", {"layer": {"num_hidden_layers": 2}}, "num_hidden_layers is 2"),
        ("specforge", {"rope_scaling": {"rope_type": "yarn"}}, 'rope_type is "yarn"'),
        ("specforge", {"rope_scaling": {"type": "mrope"}}, "mrope_section is null"),
        ("specforge", {"rope_scaling": {"mrope_section": [4, 4, 4]}}, "three numbers of sum 8"),
        ("specforge", {"eagle_aux_hidden_state_layer_ids": [2, 1, 3]}, "in ascending order"),
        ("specforge", {"eagle_aux_hidden_state_layer_ids": [-2]}, ">= -1"),
    ],
)
def test_configs_that_no_backend_computes_are_refused(tmp_path, layout, given, said):
    directory = LAYOUTS[layout](tmp_path / "head")
    config = json.loads((directory / "config.json").read_text())
    config["transformer_layer_config" if "layer" in given else "rest"] = {
        **config.get("transformer_layer_config", {}),
        **given.get("layer", {}),
    }
    (directory / "config.json").write_text(json.dumps(config | given))
    with pytest.raises(CheckpointError, match=said):
        read_head_config(directory)
