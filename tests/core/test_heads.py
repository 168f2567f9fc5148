"""Heads by their files: every kind and published layout; what is read, required and refused."""

import json
import zipfile
from functools import partial
from io import BytesIO

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mmspec.checkpoints.block_config import FULL, SLIDING
from mmspec.checkpoints.eagle3_config import default_layers
from mmspec.checkpoints.head_config import PICKLE_BYTES, is_head, read_head_config
from mmspec.checkpoints.head_manifest import head_manifest, plan_head, read_draft_ids
from mmspec.ground.errors import CheckpointError
from support.factory_heads import KINDS, tiny_head
from support.factory_published import deepspec, published, specforge, speculators, z_lab

LAYOUTS = {
    "specforge": (specforge, "eagle3", {"draft_vocab_size": 100}),
    "speculators": (speculators, "eagle3", {"draft_vocab_size": 100}),
    "z-lab": (z_lab, "dflash", {}),
    "DeepSpec": (deepspec, "dspark", {}),
    "speculators' block": (partial(speculators, kind="dspark"), "dspark", {}),
}
"""What writes a published layout, and what the same head is here."""
IDS = np.linspace(2, 319, 100).astype(int).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_every_tensor_is_required(tmp_path, kind):
    directory = tiny_head(tmp_path / "head", kind)
    tensors = load_file(directory / "model.safetensors")
    config = read_head_config(directory)
    for name in tensors:
        rest = {other: tensor for other, tensor in tensors.items() if other != name}
        save_file(rest, directory / "model.safetensors")
        with pytest.raises(CheckpointError, match=f"{name} .*is missing"):
            plan_head(directory, config)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_published_layouts_are_one_head(tmp_path, layout):
    make, kind, given = LAYOUTS[layout]
    directory, same = make(tmp_path / "head"), tiny_head(tmp_path / "own", kind, **given)
    config, own = map(read_head_config, (directory, same))
    assert is_head(directory)
    assert (config.kind, config.slots, config.block) == (kind, own.slots, own.block)
    assert head_manifest(config) == head_manifest(own)
    assert set(plan_head(directory, config)) == set(head_manifest(config))
    assert read_draft_ids(directory, config) == (IDS if kind == "eagle3" else None)
    captured = config.eagle3.captured_layers if kind == "eagle3" else config.block.captured_layers
    assert captured == ((0, 1, 2) if kind == "eagle3" else (1, 2))


@pytest.mark.parametrize(
    ("model_type", "views", "kind"),
    [
        *[("llava", 0, "msd"), ("llama", 0, "eagle"), ("qwen2", 0, "eagle")],
        *[(name, 2, "vispec") for name in ("llava", "llava_next", "llama", "qwen2", "qwen2_5_vl")],
    ],
)
@pytest.mark.parametrize("pickled", [False, True])
def test_older_layouts_are_told_by_their_tensors(tmp_path, model_type, views, kind, pickled):
    directory = published(tmp_path / "head", model_type, views=views, pickled=pickled)
    config = read_head_config(directory)
    assert is_head(directory)
    assert (config.kind, config.queries, config.image_rows) == (kind, views, views // 2)
    assert (config.bias, config.input_norm, config.positions) == (True, False, 1024)
    if pickled:
        with pytest.raises(CheckpointError, match="only pickled weights"):
            plan_head(directory, config)
    else:
        names = set(load_file(directory / "model.safetensors"))
        assert set(plan_head(directory, config)) == names - {"embed_tokens.weight"}


@pytest.mark.parametrize(
    ("layout", "name", "like", "said"),
    [
        ("msd", "lm_head.weight", "fc.bias", r"lm_head\.weight is unexpected"),
        ("msd", "fc.weight", "fc.bias", r"fc\.weight is \[64\], expected \[64, 128\]"),
        ("msd", "embed_tokens.weight", "fc.weight", r"embed_tokens.* expected \[320, 64\]"),
        ("specforge", "midlayer.extra.weight", "norm.weight", "extra.weight is unexpected"),
        ("specforge", "layers.0.hidden_norm.weight", "norm.weight", "are one tensor twice"),
        ("z-lab", "layers.0.conv", "norm.weight", r"layers\.0\.conv is unexpected"),
    ],
)
def test_unexpected_misshapen_and_doubled_tensors_are_named(tmp_path, layout, name, like, said):
    directory = written(tmp_path / "head", layout)
    tensors = load_file(directory / "model.safetensors")
    save_file(tensors | {name: tensors[like]}, directory / "model.safetensors")
    with pytest.raises(CheckpointError, match=said):
        everything(directory)


def written(path, layout):
    """A head of a kind, or in a published layout."""
    return LAYOUTS[layout][0](path) if layout in LAYOUTS else tiny_head(path, layout)


def everything(directory):
    config = read_head_config(directory)
    return plan_head(directory, config), read_draft_ids(directory, config)


WINDOW = {"layer_types": [SLIDING, FULL], "sliding_window": 6, "use_sliding_window": True}
REFUSED = [
    ("msd", {"hidden_size": None}, "hidden_size is missing, but must be there"),
    ("eagle", {"num_attention_heads": 5}, "hidden_size is 64, but must be a multiple"),
    ("eagle", {"rope_scaling": {"type": "mrope"}}, "rope_scaling.type"),
    ("medusa", {"slots": 0}, "slots is 0, but must be an integer >= 1"),
    ("msd", {"slots": 3}, "slots is 3, but must be absent"),
    ("msd", {"queries": 3}, "queries is 3, but must be absent"),
    ("flash", {"vision": "mean"}, "vision is"),
    ("speculators", {"norm_before_fc": True, "fc_norm": True}, "fc_norm is true"),
    ("speculators", {"embed_requires_grad": True}, "embed_requires_grad is true"),
    ("speculators", {"draft_vocab_size": 400}, "draft_vocab_size is 400"),
    ("speculators", {"layer": {"num_hidden_layers": 2}}, "num_hidden_layers is 2"),
    ("specforge", {"rope_scaling": {"rope_type": "yarn"}}, 'rope_type is "yarn"'),
    ("specforge", {"rope_scaling": {"type": "mrope"}}, "mrope_section is missing"),
    ("specforge", {"rope_scaling": {"mrope_section": [4, 4, 4]}}, "three numbers of sum 8"),
    ("specforge", {"eagle_aux_hidden_state_layer_ids": [2, 1, 3]}, "in ascending order"),
    ("specforge", {"eagle_aux_hidden_state_layer_ids": [-2]}, ">= -1"),
    ("z-lab", {"dflash_config": {"target_layer_ids": [0]}}, "mask_token_id"),
    ("z-lab", {"dflash_config": {"mask_token_id": 5, "target_layer_ids": [1, 0]}}, "ascend"),
    ("z-lab", {"rope_is_neox_style": False}, "rope_is_neox_style is false"),
    ("z-lab", {"final_logit_softcapping": 30.0}, "final_logit_softcapping is 30"),
    ("z-lab", {"layer_types": [SLIDING]}, "layer_types .*2 times"),
    ("z-lab", WINDOW | {"use_sliding_window": False}, "use_sliding_window is false"),
    ("DeepSpec", {"markov_head_type": "cubic"}, 'markov_head_type is "cubic"'),
    ("DeepSpec", {"markov_rank": 0}, "confidence_head_with_markov is true"),
    ("speculators' block", {"target_hidden_size": 32}, "target_hidden_size is 32"),
    ("speculators' block", {"speculators_model_type": "dflash2"}, "speculators_model_type"),
]


@pytest.mark.parametrize(("layout", "given", "said"), REFUSED)
def test_configs_that_cannot_be_are_refused(tmp_path, layout, given, said):
    file = written(tmp_path / "head", layout) / "config.json"
    config = json.loads(file.read_text())
    config.get("transformer_layer_config", {}).update(given.get("layer", {}))
    file.write_text(json.dumps(config | given))
    with pytest.raises(CheckpointError, match=said) as caught:
        read_head_config(file.parent)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_layers_that_no_config_names_are_the_default_ones(tmp_path):
    unnamed = read_head_config(specforge(tmp_path / "head", eagle_config=None))
    assert unnamed.eagle3.captured_layers == ()
    assert unnamed.eagle3.layers(36) == default_layers(36) == (2, 18, 33)


CHUNKED, INTERLEAVED = (0, 0, 1, 1, 1, 2, 2, 2), (0, 1, 2, 0, 1, 2, 0, 0)
ROPES = {
    "type": ({"type": "mrope", "mrope_section": [2, 3, 3]}, CHUNKED),
    "rope_type": ({"rope_type": "mrope", "mrope_section": [2, 3, 3]}, CHUNKED),
    "by its sections": ({"rope_type": "default", "mrope_section": [2, 3, 3]}, CHUNKED),
    "interleaved": ({"mrope_section": [4, 2, 2], "mrope_interleaved": True}, INTERLEAVED),
    "plain": ({"rope_type": "default"}, ()),
}


@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("layout", ["specforge", "speculators"])
def test_positions_of_three_rows_are_read_in_every_layout(tmp_path, layout, name):
    rope, axes = ROPES[name]
    given = {"layer": {"rope_scaling": rope}} if layout == "speculators" else {"rope_scaling": rope}
    config = read_head_config(LAYOUTS[layout][0](tmp_path / "head", **given))
    assert config.layer.rotary_axes == axes


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


def test_a_pickle_is_read_and_not_run(tmp_path):
    """One that would write a file when it is opened, a very long one, and no archive."""
    directory = published(tmp_path / "head", "llava", pickled=True)
    touched = tmp_path / "touched"
    code = f"cbuiltins\nopen\n(V{touched}\nVw\ntRVfc.weight\n."
    with zipfile.ZipFile(directory / "pytorch_model.bin", "w") as archive:
        archive.writestr("archive/data.pkl", code)
    assert is_head(directory)
    assert not touched.exists()
    with zipfile.ZipFile(directory / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        text = PICKLE_BYTES // 2 * "x"
        archive.writestr("archive/data.pkl", f"Vfc.weight\nV{text}\nV{text}\n.")
    file = directory / "pytorch_model.bin"
    longer = bytearray(file.read_bytes())
    sizes = longer.index(b"PK\1\2") + 20  # the packed and the whole one, which end after the file
    longer[sizes : sizes + 8] = b"\0\0\0\1" * 2
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("archive/data.pkl", bytes(9))
    broken = packed.getvalue().replace(b"\x05\0]", b"\x05\0\xff", 1)
    for content in (file.read_bytes(), longer, broken, b"not one"):
        file.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"not a file that torch\.save wrote"):
            is_head(directory)
