"""Checkpoints of every layout and type load as the same model; what cannot be had is named."""

from shutil import copytree

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mmspec.chat.plugins import load_backend
from mmspec.checkpoints.safetensors_file import read_header
from mmspec.ground.errors import CheckpointError, UsageError
from support import factory
from support import sequence_helpers as helpers


@pytest.fixture
def loaded(backend):
    """Loads a checkpoint."""
    return lambda path, **named: load_backend(backend).load(path, **{"device": "cpu"} | named)


def logits(model):
    """The logits after a prompt with an image."""
    image = helpers.pixels(32)[0]
    return helpers.target(model, helpers.prompt([model.encode(image)])).logits()


@pytest.mark.parametrize(
    ("layout", "dtype"), [("transformers", "float32"), ("hub", "float16"), ("hub", "bfloat16")]
)
def test_every_layout_and_type_gives_the_same_model(loaded, tmp_path, layout, dtype):
    path = factory.tiny_llava(tmp_path / "a", layout=layout, dtype=dtype, sharded=True)
    models = [loaded(path), loaded(factory.tiny_llava(tmp_path / "b", dtype=dtype))]
    assert [model.dtype for model in models] == ["float32"] * 2
    assert models[0].tower == models[1].tower != ""
    np.testing.assert_array_equal(*map(logits, models))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_near_float32(loaded, llava_path, dtype):
    exact, rounded = loaded(llava_path, dtype="float32"), loaded(llava_path, dtype=dtype)
    assert rounded.dtype == dtype
    assert rounded.tower != exact.tower
    expected = logits(exact)
    np.testing.assert_allclose(logits(rounded), expected, atol=0.1 * np.abs(expected).max())
    target = helpers.target(rounded, helpers.TEXT)
    drafter = helpers.branches(rounded, [helpers.TEXT])
    assert len(helpers.tokens(helpers.rounds(target, drafter, 12))) == 12


MIXED = {"v_proj": 6, "down_proj": 3, "lm_head": 8, "layers.1.self_attn.q_proj": 5}


@pytest.mark.parametrize(
    ("bits", "group", "own"),
    [(2, 64, {}), (3, 64, {}), (5, 64, {}), (6, 64, {}), (8, 32, {}), (4, 64, MIXED)],
)
def test_bits_of_any_number_and_by_layer_give_the_tokens_of_the_same_weights_dequantized(
    loaded, tmp_path, llava_path, bits, group, own
):
    kind = {"own": own, "vision": group == 64, "bare": not own}
    path = factory.quantized(llava_path, tmp_path / "q", bits, group, **kind)
    plain = factory.dequantized(path, tmp_path / "u")
    texts, models = [], (loaded(path), loaded(plain))
    for model in models:
        prompt = helpers.prompt([model.encode(helpers.pixels(32)[0])])
        texts.append(helpers.plain(helpers.target(model, prompt), 24))
    assert texts[0] == texts[1]
    np.testing.assert_allclose(*map(logits, models), atol=5e-5)
    assert (models[0].tower == loaded(llava_path).tower) is not kind["vision"]


def test_a_text_model_has_no_tower_and_no_eyes(loaded, llama_path):
    model = loaded(llama_path)
    assert model.tower == ""
    with pytest.raises(UsageError, match="text-only"):
        model.encode(helpers.pixels(32)[0])


@pytest.mark.parametrize(
    ("value", "dtype"), [(np.nan, "float32"), (np.inf, "float16"), (-np.inf, "bfloat16")]
)
def test_weights_that_are_not_finite_are_named(
    loaded, tmp_path, llama_path, mlx_path, value, dtype
):
    name, scales = "model.layers.1.mlp.up_proj.weight", "language_model.lm_head.scales"
    path = damaged(llama_path, tmp_path / "damaged", name, value)
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: {name} holds NaN or inf"):
        loaded(path, dtype=dtype)
    with pytest.raises(CheckpointError, match=r"lm_head.* holds NaN or infinity"):
        loaded(damaged(mlx_path, tmp_path / "scales", scales, value))


def test_weights_that_overflow_are_named_and_large_ones_load(loaded, tmp_path, llama_path):
    path = damaged(llama_path, tmp_path / "large", "model.norm.weight", -60_000)
    assert loaded(path, dtype="float16").dtype == "float16"
    path = damaged(llama_path, tmp_path / "larger", "model.norm.weight", 70_000)
    with pytest.raises(CheckpointError, match=r"too large for `dtype=float16`"):
        loaded(path, dtype="float16")
    assert loaded(path, dtype="bfloat16").dtype == "bfloat16"


def damaged(source, path, name, value):
    """A copy of a checkpoint with one element changed."""
    copytree(source, path)
    file = next(path.glob("*.safetensors"))
    tensors = load_file(file)
    tensors[name].reshape(-1)[-1] = value
    save_file(tensors, file, metadata={"format": read_header(file)[name].writer})
    return path


def test_an_unknown_device_or_type_is_named_with_what_there_is(loaded, llava_path):
    with pytest.raises(UsageError, match=r"unknown \S+ device 'tpu'.*: use auto.* or cpu"):
        loaded(llava_path, device="tpu")
    with pytest.raises(UsageError, match=r"'float8'.*: use auto, float32"):
        loaded(llava_path, dtype="float8")


def test_a_large_checkpoint_shows_how_much_of_it_is_read(loaded, llava_path, monkeypatch):
    bars = []
    loaded(llava_path, progress=bars.append)
    assert bars == []
    monkeypatch.setattr("mmspec.checkpoints.loading_progress.LARGE", 1)
    loaded(llava_path, progress=bars.append)
    percents = [int(bar.split()[1]) for bar in bars]
    assert percents == sorted({0, *percents})
    assert len(percents) > 5
    assert [bar.count("█") for bar in bars] == [percent // 5 for percent in percents]
