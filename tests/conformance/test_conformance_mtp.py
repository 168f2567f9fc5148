"""Qwen3.5's own drafter: what transformers' classes compute, found where it is, and lossless."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
from test_conformance_qwen import shown

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from mmspec.ground.errors import UsageError
from support.conformance_cases import prompt_of
from support.exactness_cases import TREES, Count, cases, compare_all
from support.factory_qwen import IMAGE_ID, add_mtp, tiny_qwen3_5
from support.mtp_oracle import MtpOracle
from support.qwen_oracle import Oracle

TEXT = [20, 40, 60, 80, 21, 41, 90, 91, 92, 20, 40, 60, 33]


@pytest.fixture(scope="module")
def path(checkpoints):
    return add_mtp(tiny_qwen3_5(checkpoints / "mtp", seed=8, key_value_heads=4, kinds="ddad"))


@pytest.fixture(scope="module")
def engine(backend, path):
    with load(str(path), backend=backend) as loaded:
        yield loaded


def drafted(engine, text, gamma, *more):
    """The ids that the engine's head drafts after a text, and `more` parts of a prompt."""
    target = engine.target.model.open_target(GREEDY)
    drafter = engine.head.head.open_drafter(target, GREEDY)
    for part in (text[:5], text[5:], *more):
        target.extend(Segment([part]))
        drafter.extend([Segment([part])])
    draft = drafter.draft(Plan(gamma), NO_NOISE)
    verdict = target.verify(draft, NO_NOISE)
    return verdict.drafted


def test_drafts_are_those_of_transformers_classes(engine, path):
    oracle = MtpOracle(path)
    for cut in range(4, len(TEXT)):
        assert drafted(engine, TEXT[: cut + 1], 4) == oracle.draft(TEXT[: cut + 1], 4)


def by_index(path, copy):
    """A copy of a checkpoint whose drafter turns by the index of tokens and visual positions."""
    shutil.copytree(path, copy)
    config = json.loads((path / "config.json").read_text())
    config["text_config"]["mtp_positions"] = "index"
    (copy / "config.json").write_text(json.dumps(config))
    return copy


def test_it_turns_by_the_targets_positions_or_by_a_tokens_index(engine, path, backend, tmp_path):
    """As `mtp_positions` says; an image has fewer positions than tokens."""
    oracle, [picture], found = MtpOracle(path), shown(1, 60, 44), {}
    with load(str(by_index(path, tmp_path / "index")), backend=backend) as other:
        for kind, each in enumerate((engine, other)):
            image, found[kind] = each.target.features(picture), []
            for last in range(40, 60):
                given = Segment([TEXT, image, [20, last]]).token_ids(IMAGE_ID)
                ids = drafted(each, TEXT, 3, image, [20, last])
                assert ids == oracle.draft(given, 3, [picture.image], bool(kind))
                found[kind].append(ids)
    assert found[0] != found[1]


def test_it_is_the_default_where_the_checkpoint_has_it(engine, path, backend):
    assert engine.head.kind == "mtp"
    answer = engine.chat(Options(gamma=3, max_new_tokens=40)).reply("Which shapes are there?")
    assert answer.drafting.spec == "mtp"
    assert sum(round_.accepted for round_ in answer.rounds) > 0
    with load(str(path), "none", backend=backend) as plain:
        assert plain.head is None
    with pytest.raises(UsageError, match="recurrent layers"):
        engine.chat(Options(tree=Tree()))
    with pytest.raises(UsageError, match="the kind mtp"):
        load(str(path), backend=backend, options=Options(drafting="T"))


def test_answers_are_generates_own(engine, path):
    oracle, chat = Oracle(path), engine.chat(Options(gamma=3, max_new_tokens=12))
    for text in ("Which shapes are there?", "And these?"):
        said = chat.reply(text).token_ids
        assert said == oracle.generated(prompt_of(chat), 12)


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float32", marks=pytest.mark.slow)])
def test_answers_are_the_same_bits(path, backend, dtype, near):
    """Also with images, after undo and retry, and beside a chat that reads all anew."""
    some = [case for case in cases(["mtp"]) if case.shape not in TREES][::8]
    with load(str(path), backend=backend, dtype=dtype) as engine:
        assert compare_all({"": engine}, some, "on", 10) == Count(5 * len(some))


def apart(path, place, layout):
    """The drafter of a checkpoint in files of its own; layout: the hub's names, or MLX's."""
    place.mkdir()
    config = json.loads((path / "config.json").read_text())
    stored = safetensors.numpy.load_file(path / "model.safetensors")
    own = {name: stored[name] for name in stored if name.startswith("mtp.")}
    if layout == "mlx":
        config = {"model_type": "qwen3_5_mtp", "text_config": config["text_config"]}
        own = {name.removeprefix("mtp."): own[name] for name in own}
        own = {name: own[name] + np.float32("norm" in name) for name in own}
    (place / "config.json").write_text(json.dumps(config))
    safetensors.numpy.save_file(own, place / "model.safetensors", {"format": layout})
    return place


@pytest.mark.parametrize("layout", ["pt", "mlx"])
def test_it_may_have_a_repository_of_its_own(path, engine, backend, tmp_path, layout):
    bare = tmp_path / "bare"
    shutil.copytree(path, bare)
    stored = safetensors.numpy.load_file(bare / "model.safetensors")
    target = {name: stored[name] for name in stored if not name.startswith("mtp.")}
    safetensors.numpy.save_file(target, bare / "model.safetensors", {"format": "pt"})
    with load(str(bare), str(apart(path, tmp_path / "own", layout)), backend=backend) as other:
        assert other.head.kind == "mtp"
        assert drafted(other, TEXT, 4) == drafted(engine, TEXT, 4)
