"""Block drafters by their files: four layouts, two conventions; what is required and refused."""

import json

import pytest

from mmspec.checkpoints.block_config import FULL, SLIDING
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.head_config import is_head, read_head_config, require_fit
from mmspec.checkpoints.head_manifest import head_manifest, plan_head, read_draft_ids
from mmspec.drafters.heads.block import sights
from mmspec.ground.errors import CheckpointError, UsageError
from support.factory_blocks import deepspec, speculators_block, z_lab
from support.factory_heads import tiny_head

WINDOW = {"layer_types": [SLIDING, FULL], "sliding_window": 6, "use_sliding_window": True}


def speculators(path, **given):
    return speculators_block(path, "dspark", **given)


LAYOUTS = {"z-lab": z_lab, "DeepSpec": deepspec, "speculators": speculators}


@pytest.mark.parametrize(
    ("layout", "kind", "slots", "anchored"),
    [
        ("z-lab", "dflash", 4, False),
        ("DeepSpec", "dspark", 5, True),
        ("speculators", "dspark", 5, True),
    ],
)
def test_published_layouts_are_one_head(tmp_path, layout, kind, slots, anchored):
    directory = LAYOUTS[layout](tmp_path / "head")
    config = read_head_config(directory)
    assert is_head(directory)
    assert (config.kind, config.slots, config.block.sample_from_anchor) == (kind, slots, anchored)
    assert config.block.captured == (1, 2)
    assert read_draft_ids(directory, config) is None
    own = tiny_head(tmp_path / "own", kind, sample_from_anchor=anchored)
    assert read_head_config(own).block == config.block
    assert set(plan_head(directory, config)) == set(head_manifest(read_head_config(own)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, (False, False)),
        ({"is_causal": False}, (False, True)),
        ({"is_causal": True}, (True, False)),
    ],
)
def test_sliding_layers_are_causal_unless_the_config_says_it(tmp_path, given, said):
    block = read_head_config(z_lab(tmp_path / "head", **WINDOW, **given)).block
    assert (block.is_causal, block.sliding_window_non_causal) == said


def test_a_layer_sees_its_window(tmp_path):
    """In speculators' files the window ends at the block, elsewhere it moves with the row."""
    moving = read_head_config(z_lab(tmp_path / "a", **WINDOW)).block
    sliding, full = sights(moving, 2, 20, 3)
    assert (full.first, full.visible, sliding.first) == (0, None, 15)
    expected = [[1, 1, 1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1, 1, 1]]
    assert sliding.visible.astype(int).tolist() == expected
    same = {"sliding_window_non_causal": True}
    fixed = read_head_config(speculators(tmp_path / "b", layer=WINDOW, **same)).block
    assert sights(fixed, 2, 20, 3)[0] == (14, None)


@pytest.mark.parametrize(
    ("layout", "given", "said"),
    [
        ("z-lab", {"dflash_config": {"target_layer_ids": [0]}}, "mask_token_id"),
        ("z-lab", {"dflash_config": {"mask_token_id": 5}}, "target_layer_ids"),
        ("z-lab", {"dflash_config": {"mask_token_id": 5, "target_layer_ids": [1, 0]}}, "ascend"),
        ("z-lab", {"rope_is_neox_style": False}, "rope_is_neox_style is false"),
        ("z-lab", {"final_logit_softcapping": 30.0}, "final_logit_softcapping is 30"),
        ("z-lab", {"layer_types": [SLIDING]}, "layer_types .*2 times"),
        ("z-lab", WINDOW | {"use_sliding_window": False}, "use_sliding_window is false"),
        ("DeepSpec", {"markov_head_type": "cubic"}, 'markov_head_type is "cubic"'),
        ("DeepSpec", {"markov_rank": 0}, "confidence_head_with_markov is true"),
        ("speculators", {"target_hidden_size": 32}, "target_hidden_size is 32"),
        ("speculators", {"speculators_model_type": "dflash2"}, "speculators_model_type"),
    ],
)
def test_configs_that_no_backend_computes_are_refused(tmp_path, layout, given, said):
    directory = LAYOUTS[layout](tmp_path / "head")
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | given))
    with pytest.raises(CheckpointError, match=said):
        read_head_config(directory)


def test_another_target_is_refused(tmp_path, llava_path):
    nested = {"target_layer_ids": [0, 7]}
    directory = z_lab(tmp_path / "head", nested=nested)
    with pytest.raises(UsageError, match=r"reads layers \[1, 8\].*this target has 2"):
        require_fit(read_head_config(directory), read_config(llava_path), directory)
    for given in ({"hidden_size": 32}, {"vocab_size": 100_000}):
        config = read_head_config(z_lab(tmp_path / str(given), **given))
        with pytest.raises(UsageError, match=r"width (32|64) and (320|100000) tokens; this target"):
            require_fit(config, read_config(llava_path), directory)
