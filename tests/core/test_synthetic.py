"""Random checkpoints of known shapes: files that others read, and that the loading code takes."""

from collections import namedtuple
from math import prod

import numpy as np
import pytest

from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.head_config import read_head_config
from mmspec.checkpoints.head_manifest import plan_head
from mmspec.checkpoints.loading_plan import plan
from mmspec.ground.errors import UsageError
from mmspec.prompt.tokenizer import Tokenizer, shared_vocabulary
from mmspec_bench.random_weights import checkpoints, weights
from mmspec_bench.random_weights.bandwidth_bound import Cost, step_bytes
from mmspec_bench.random_weights.checkpoints import write_checkpoints
from mmspec_bench.random_weights.shapes import SHAPES
from mmspec_bench.random_weights.weights import RandomTensors
from support.full_size import FULL_SIZE


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    return write_checkpoints("tiny", tmp_path_factory.mktemp("synthetic"), lambda _: None)


def floats(directory):
    """What the format's own library reads."""
    from safetensors.torch import load_file

    tensors = {}
    for file in sorted(directory.glob("*.safetensors")):
        tensors |= {name: value.float().numpy() for name, value in load_file(file).items()}
    return tensors


@pytest.mark.parametrize(("name", "like"), [("llava-1.5-7b", "hub"), ("llava-1.5-13b", "hub")])
def test_full_sizes_take_what_the_published_files_take(name, like):
    part = checkpoints._model(SHAPES[name].target)
    published = FULL_SIZE[f"{name} {like}"].bytes
    # The tower's last layer is never read, and not written.
    assert weights.total_bytes(part.tensors) == pytest.approx(published, rel=0.003)
    layer = SHAPES[name].target["text_config"].get("num_hidden_layers", 32)
    head = checkpoints._head(part)
    width = part.model.text.hidden_size
    assert head.tensors["fc.weight"] == (width, 2 * width)
    assert f"language_model.model.layers.{layer - 1}.mlp.up_proj.weight" in part.tensors


def test_the_loading_code_takes_every_part(kit):
    for directory in (kit.target, kit.draft):
        plan(directory, read_config(directory))
    plan_head(kit.head, read_head_config(kit.head))
    target, draft = Tokenizer.read(kit.target), Tokenizer.read(kit.draft)
    assert shared_vocabulary(target, draft) == target.size == 302
    assert target.decode(target.encode("déjà vu\n")) == "déjà vu\n"
    assert (target.image_token_id, target.prefix, target.eos_ids) == (300, [1], {2})


def test_numbers_keep_a_signals_size(kit):
    tensors = floats(kit.target)
    assert sum(prod(value.shape) for value in tensors.values()) * 2 < kit.bytes
    assert all(np.isfinite(value).all() for value in tensors.values())
    assert (tensors["language_model.model.norm.weight"] == 1).all()
    assert (tensors["vision_tower.vision_model.pre_layrnorm.weight"] == 1).all()
    down = tensors["language_model.model.layers.1.mlp.down_proj.weight"]
    assert down.std() == pytest.approx(128**-0.5, rel=0.05)
    assert abs(tensors["vision_tower.vision_model.pre_layrnorm.bias"]).max() < 0.1


def test_towers_are_equal_and_layers_are_not(kit):
    target, draft = floats(kit.target), floats(kit.draft)
    tower = [name for name in target if name.startswith("vision_tower")]
    assert tower
    assert all((target[name] == draft[name]).all() for name in tower)
    stem = "language_model.model.layers.{}.self_attn.q_proj.weight"
    assert (target[stem.format(0)] != target[stem.format(1)]).any()


def test_numbers_run_on_past_the_draws():
    random = RandomTensors(seed=3, draws=1000)
    pieces = list(random.pieces("a.weight", (50, 70)))
    assert sum(map(len, pieces)) == 3500
    joined = np.concatenate(pieces)
    assert (joined[:1000] == joined[1000:2000]).all()
    assert (
        joined == np.concatenate(list(RandomTensors(3, 1000).pieces("a.weight", (50, 70))))
    ).all()


def test_what_is_there_is_kept(kit, monkeypatch):
    monkeypatch.setattr(checkpoints, "_write", None)
    assert write_checkpoints("tiny", kit.target.parent.parent, lambda _: None) == kit


def test_refusals(kit, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"llava-1\.5-7b"):
        write_checkpoints("llava-1.5-7B", tmp_path, lambda _: None)
    (tmp_path / "tiny" / "target").mkdir(parents=True)
    with pytest.raises(UsageError, match="holds something else"):
        write_checkpoints("tiny", tmp_path, lambda _: None)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda _: usage(1000))
    with pytest.raises(UsageError, match=r"0\.0 GB free, and 0\.0 GB are to be written"):
        write_checkpoints("tiny", tmp_path / "other" / "place", lambda _: None)


def parsed(name):
    return checkpoints._model(SHAPES[name].target).model


def test_the_bound_counts_what_a_step_reads():
    config = parsed("llava-1.5-7b")
    # 32 layers of 4 * 4096^2 + 3 * 4096 * 11008, two norms each, one norm, 32064 outputs.
    numbers = 32 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096) + 4096 + 32064 * 4096
    assert step_bytes(config, "bfloat16", 0) == 2 * numbers
    linear = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    scales = 2 * 32 * (4 * 4096 + 2 * 11008 + 4096)
    assert step_bytes(config, "bfloat16", 0, "int8") == 2 * (numbers - linear) + linear + scales
    groups = linear // 64
    assert (
        step_bytes(config, "bfloat16", 0, "int4")
        == 2 * (numbers - linear) + linear // 2 + 4 * groups
    )
    assert step_bytes(config, "float32", 10) == 4 * (numbers + 10 * 2 * 32 * 4096)
    assert Cost(0.01, 8_000).bound(bandwidth=2e6) == 0.004
