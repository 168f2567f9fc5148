"""Qwen3.5's own drafter: what transformers' classes compute, found where it is, and lossless."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from safetensors.torch import load_file
from test_conformance_qwen import shown

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.contract import Segment
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from mmspec.ground.errors import UsageError
from support.exactness_cases import chains, check_same_bits
from support.factory_layouts import change_json, change_tensors
from support.factory_qwen import IMAGE_ID, add_mtp, tiny_qwen
from support.mtp_drafter import MtpDrafter
from support.qwen_oracle import Oracle
from support.sequence_helpers import verdict

TEXT = [20, 40, 60, 80, 21, 41, 90, 91, 92, 20, 40, 60, 33]


@pytest.fixture(scope="module")
def path(checkpoints):
    sizes = {"seed": 8, "key_value_heads": 4, "kinds": "ddad"}
    return add_mtp(tiny_qwen("qwen3_5", checkpoints / "mtp", **sizes))


@pytest.fixture(scope="module")
def engine(backend, path):
    with load(path, backend=backend) as loaded:
        yield loaded


def drafted(engine, text, gamma, *more):
    """The ids that the engine's head drafts after a text, and `more` parts of a prompt."""
    target = engine.target.model.open_target(GREEDY)
    drafter = engine.head.head.open_drafter(target, GREEDY)
    for part in (text[:5], text[5:], *more):
        target.extend(Segment([part]))
        drafter.extend([Segment([part])])
    return verdict(target, drafter, gamma).drafted


def by_index(path, copy):
    """A copy of a checkpoint whose drafter turns by the index of tokens and visual positions."""
    text = json.loads((path / "config.json").read_text())["text_config"]
    shutil.copytree(path, copy)
    change_json(copy / "config.json", text_config=text | {"mtp_positions": "index"})
    return copy


def test_drafts_are_those_of_transformers_classes(engine, path, backend, tmp_path):
    """At the target's positions or at a token's index, as `mtp_positions` says."""
    oracle, [picture], found = MtpOracle(path), shown(1, 60, 44), {}
    with load(by_index(path, tmp_path / "index"), backend=backend) as other:
        for kind, each in enumerate((engine, other)):
            assert drafted(each, TEXT, 3) == oracle.draft(TEXT, 3, (), bool(kind))
            image, found[kind] = each.target.features(picture), []
            for last in range(40, 60, 4):
                given = Segment([TEXT, image, [20, last]]).token_ids(IMAGE_ID)
                ids = drafted(each, TEXT, 3, image, [20, last])
                assert ids == oracle.draft(given, 3, [picture.image], bool(kind))
                found[kind].append(ids)
    assert found[0] != found[1]  # an image has fewer positions than tokens


def test_it_is_the_default_where_the_checkpoint_has_it(engine, path, backend):
    assert engine.head.kind == "mtp"
    answer = engine.chat(Options(gamma=3, max_new_tokens=40)).reply("Which shapes are there?")
    assert answer.drafting.spec == "mtp+lookup"
    assert sum(round_.accepted for round_ in answer.rounds) > 0
    with load(path, "none", backend=backend) as plain:
        assert plain.head is None
    with pytest.raises(UsageError, match="recurrent layers"):
        engine.chat(Options(tree=Tree()))
    with pytest.raises(UsageError, match="the kind mtp"):
        load(path, backend=backend, options=Options(drafting="T"))


def test_answers_are_the_same_bits(path, backend, near):
    """Also with images, after undo and retry, and beside a chat that reads all anew."""
    some = chains(["mtp"])[8 * (backend == "torch") :: 16]
    with load(path, backend=backend, dtype="bfloat16") as engine:
        check_same_bits(engine, some, 10)


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
    bare = shutil.copytree(path, tmp_path / "bare")
    change_tensors(bare, lambda every: {n: x for n, x in every.items() if not n.startswith("mtp.")})
    with load(bare, apart(path, tmp_path / "own", layout), backend=backend) as other:
        assert other.head.kind == "mtp"
        assert drafted(other, TEXT, 4) == drafted(engine, TEXT, 4)


class MtpOracle:
    """A checkpoint's target and drafter in float32."""

    def __init__(self, path: Path) -> None:
        self._target, self._drafter = Oracle(path), MtpDrafter(path).eval()
        stored = load_file(path / "model.safetensors")
        own = {name.removeprefix("mtp."): stored[name] for name in stored if "mtp." in name}
        self._drafter.load_state_dict(own)

    @torch.no_grad()
    def draft(
        self, ids: Sequence[int], count: int, pictures: Sequence[Any] = (), by_index: bool = False
    ) -> list[int]:
        """The drafter's likeliest `count` tokens after a prompt, of which the last two are text."""
        model, columns = self._target.model, self._target.columns(ids, pictures)
        decoder, (first, *_, last) = model.model.language_model, columns.layers
        counted = torch.arange(len(ids)).expand(3, -1)
        positions = (counted if by_index else columns.positions)[:, :-1]
        states, embeddings = decoder.norm(last)[None, :-1], first[None, 1:]
        drafted = list[int]()
        for _ in range(count):
            features = self._drafter(embeddings, states, positions[:, None])
            drafted.append(int(model.lm_head(features[:, -1]).argmax()))
            embeddings = torch.cat(
                (embeddings, decoder.embed_tokens(torch.tensor([drafted[-1:]]))), 1
            )
            states = torch.cat((states, features[:, -1:]), 1)
            positions = torch.cat((positions, positions[:, -1:] + 1), 1)
        return drafted
