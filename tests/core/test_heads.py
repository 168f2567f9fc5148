"""Heads by their files: what is recognised, read, required and refused."""

import pytest
from safetensors.numpy import load_file, save_file

from mmspec.checkpoints.head_config import is_head, read_head_config
from mmspec.checkpoints.head_manifest import plan_head
from mmspec.checkpoints.head_names import PICKLE_BYTES
from mmspec.ground.errors import CheckpointError
from support.factory_heads import KINDS, head_config, published, tiny_head
from support.factory_layouts import write_json

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


REFUSED = [
    ("msd", {"hidden_size": None}, "hidden_size is null, but must be there"),
    ("eagle", {"num_attention_heads": None}, "num_attention_heads is null, but must be there"),
    ("eagle", {"num_attention_heads": 5}, "hidden_size is 64, but must be a multiple"),
    ("eagle", {"rope_scaling": {"type": "mrope"}}, "rope_scaling.type"),
    ("medusa", {"slots": 0}, "slots is 0, but must be an integer >= 1"),
    ("msd", {"slots": 3}, "slots is 3, but must be absent"),
    ("msd", {"queries": 3}, "queries is 3, but must be absent"),
    ("flash", {"vision": "mean"}, "vision is"),
    ("hydra", {"vision": "all"}, "vision is"),
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
