"""Heads by their files: what is recognised, read, required and refused."""

import json
import math

import pytest
from safetensors.numpy import load_file, save_file

from mmspec.checkpoints.head_config import HeadConfig, is_head, read_head_config
from mmspec.checkpoints.head_manifest import head_manifest, head_optional, plan_head
from mmspec.checkpoints.head_names import PICKLE_BYTES
from mmspec.ground.errors import CheckpointError
from support.factory_heads import KINDS, head_config, published, published_config, tiny_head
from support.factory_layouts import write_json

LLAVA_7B = {"hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32}
LLAVA_13B = {"hidden_size": 5120, "intermediate_size": 13824, "num_attention_heads": 40}
PARAMETERS = {"7b": (LLAVA_7B, 235.9e6, 131.1e6), "13b": (LLAVA_13B, 369.6e6, 163.8e6)}
"""Sizes of MSD-LLaVA1.5-7B and 13B: trained parameters and the frozen embedding's."""

VARIANTS = [
    *((kind, {}) for kind in KINDS),
    ("eagle", {"bias": False}),
    ("eagle", {"qkv_bias": True, "num_key_value_heads": 2}),
    ("eagle3", {"fc_norm": True, "norm_output": True, "norm_before_residual": True}),
    ("eagle3", {"norm_before_fc": True, "image_embeddings": True, "qk_norm": True, "head_dim": 16}),
    ("eagle3", {"rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}}),
    ("eagle3", {"rope_scaling": {"mrope_section": [4, 2, 2], "mrope_interleaved": True}}),
    ("msd", {"input_norm": True}),
    ("vispec", {"qkv_bias": True, "queries": 3, "bias": False}),
    ("medusa", {"vision": "mean"}),
    ("hydra", {"vision": "attention", "slots": 5}),
    ("flash", {"queries": 0}),
    ("dflash", {"is_causal": True, "rope_scaling": {"mrope_section": [8, 4, 4]}}),
    (
        "dflash",
        {"layer_types": ["sliding_attention"] * 2, "sliding_window": 9}
        | {"use_sliding_window": True, "window_before_block": True, "image_context": False},
    ),
    ("dspark", {"markov_head_type": "gated", "confidence_head_with_markov": False}),
    ("dspark", {"markov_head_type": "rnn", "enable_confidence_head": False}),
]


@pytest.mark.parametrize(("kind", "given"), VARIANTS)
def test_every_kind_is_recognised_and_planned_whole(tmp_path, kind, given):
    directory = tiny_head(tmp_path / "head", kind, **given)
    config = read_head_config(directory)
    sources = plan_head(directory, config)
    stored = load_file(directory / "model.safetensors")
    assert is_head(directory)
    assert config.kind == kind
    assert {name: source.shape for name, source in sources.items()} == {
        name: tensor.shape for name, tensor in stored.items()
    }


@pytest.mark.parametrize(("kind", "given"), VARIANTS)
def test_a_config_written_and_read_again_is_the_same(tmp_path, kind, given):
    config = read_head_config(tiny_head(tmp_path / "head", kind, **given))
    (tmp_path / "again").mkdir()
    write_json(tmp_path / "again" / "config.json", config.described())
    assert read_head_config(tmp_path / "again") == config


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


def test_unexpected_and_misshapen_tensors_are_named(tmp_path):
    directory = tiny_head(tmp_path / "head", "msd")
    tensors = load_file(directory / "model.safetensors")
    config = read_head_config(directory)
    save_file(tensors | {"lm_head.weight": tensors["fc.bias"]}, directory / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"lm_head\.weight is unexpected"):
        plan_head(directory, config)
    save_file(tensors | {"fc.weight": tensors["fc.weight"].T}, directory / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"fc\.weight is \[128, 64\], expected \[64, 128\]"):
        plan_head(directory, config)
    wrong = {"embed_tokens.weight": tensors["fc.weight"]}
    save_file(tensors | wrong, directory / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"embed_tokens\.weight .*expected \[320, 64\]"):
        plan_head(directory, config)


@pytest.mark.parametrize(
    ("model_type", "kind"), [("llava", "msd"), ("llama", "eagle"), ("qwen2", "eagle")]
)
@pytest.mark.parametrize("pickled", [False, True])
def test_published_layouts_are_recognised_by_their_tensors(tmp_path, model_type, kind, pickled):
    directory = published(tmp_path / "head", model_type, pickled=pickled)
    config = read_head_config(directory)
    assert is_head(directory)
    assert (config.kind, config.bias, config.input_norm) == (kind, True, False)
    assert config.positions == 1024
    if pickled:
        with pytest.raises(CheckpointError, match="only pickled weights"):
            plan_head(directory, config)
    else:
        names = set(load_file(directory / "model.safetensors"))
        assert set(plan_head(directory, config)) == names - {"embed_tokens.weight"}


def test_published_variants(tmp_path):
    bare = read_head_config(published(tmp_path / "bare", "llama", bias=False))
    assert "fc.bias" not in head_manifest(bare)
    assert head_optional(bare) == {"embed_tokens.weight": (320, 64)}
    qwen = published(tmp_path / "qwen", "qwen2", qkv_bias=True, num_key_value_heads=2)
    assert plan_head(qwen, read_head_config(qwen))["layers.0.self_attn.k_proj.bias"].shape == (32,)


@pytest.mark.parametrize("size", PARAMETERS)
def test_full_size_heads_have_the_parameters_that_are_known(tmp_path, size):
    sizes, trained, frozen = PARAMETERS[size]
    heads = {"num_key_value_heads": sizes["num_attention_heads"], "vocab_size": 32000}
    write_json(tmp_path / "config.json", published_config("llava") | sizes | heads)
    config = read_head_config(tmp_path)
    assert count(head_manifest(config)) == pytest.approx(trained, rel=1e-3)
    assert count(head_optional(config)) == pytest.approx(frozen, rel=1e-3)


@pytest.mark.parametrize(("kind", "millions"), [("medusa", 83.9), ("hydra", 419.5)])
def test_full_size_slotted_heads(tmp_path, kind, millions):
    config = HeadConfig(kind, 4096, 32064, slots=5)
    assert count(head_manifest(config)) / 1e6 == pytest.approx(millions, rel=1e-3)


def count(shapes):
    return sum(math.prod(shape) for shape in shapes.values())


def test_whole_models_are_no_heads(llava_path, llama_path, tmp_path):
    assert not is_head(llava_path)
    assert not is_head(llama_path)
    assert not is_head(tmp_path)


REFUSED = [
    ("msd", {"kind": "clover"}, "kind is"),
    ("msd", {"hidden_size": None}, "hidden_size is null, but must be there"),
    ("eagle", {"num_attention_heads": None}, "num_attention_heads is null, but must be there"),
    ("eagle", {"num_attention_heads": 5}, "hidden_size is 64, but must be a multiple"),
    ("eagle", {"rope_scaling": {"type": "mrope"}}, "rope_scaling.type"),
    ("medusa", {"slots": 0}, "slots is 0, but must be an integer >= 1"),
    ("msd", {"slots": 3}, "slots is 3, but must be absent"),
    ("msd", {"queries": 3}, "queries is 3, but must be absent"),
    ("flash", {"queries": -1}, "queries is -1, but must be an integer >= 0"),
    ("flash", {"vision": "mean"}, "vision is"),
    ("hydra", {"vision": "all"}, "vision is"),
    ("hydra", {"bias": "yes"}, "bias is"),
]


@pytest.mark.parametrize(("kind", "given", "said"), REFUSED)
def test_configs_that_cannot_be_are_refused(tmp_path, kind, given, said):
    write_json(tmp_path / "config.json", head_config(kind) | given)
    with pytest.raises(CheckpointError, match=said) as caught:
        read_head_config(tmp_path)
    assert str(tmp_path / "config.json") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model_type", ["llava", "llava_next", "llama", "qwen2", "qwen2_5_vl"])
@pytest.mark.parametrize("pickled", [False, True])
def test_a_vispec_head_is_told_from_an_eagle_one(tmp_path, model_type, pickled):
    directory = published(tmp_path / "head", model_type, views=2, pickled=pickled)
    config = read_head_config(directory)
    assert is_head(directory)
    assert (config.kind, config.queries, config.packed) == ("vispec", 2, 1)
    if not pickled:
        names = set(load_file(directory / "model.safetensors"))
        assert set(plan_head(directory, config)) == names - {"embed_tokens.weight"}


def test_a_vispec_head_with_other_vectors_than_published_ones_is_refused(tmp_path):
    directory = published(tmp_path / "head", "llava", views=3)
    with pytest.raises(CheckpointError, match=r"imadpt\.q is \[3, 4, 16\], expected \[2, 4, 16\]"):
        plan_head(directory, read_head_config(directory))


def test_a_pickle_is_read_and_not_run(tmp_path):
    """One that would write a file when it is opened, a very long one, and no archive."""
    import zipfile

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
    with pytest.raises(CheckpointError, match=r"not a file that torch\.save wrote"):
        is_head(directory)
    (directory / "pytorch_model.bin").write_bytes(b"not one")
    with pytest.raises(CheckpointError, match=r"not a file that torch\.save wrote"):
        is_head(directory)


def test_the_published_config_is_not_written_to(tmp_path):
    directory = published(tmp_path / "head", "llava")
    before = (directory / "config.json").read_text()
    read_head_config(directory)
    assert json.loads(before)["num_hidden_layers"] == 1
    assert (directory / "config.json").read_text() == before
