"""A drafter of a text model drafts for a vision model of its width, by what its config says."""

import json

import numpy as np
import pytest
from test_conformance_mrope_heads import DRAWN, PICTURES, opened, prompt

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from support.conformance_cases import check_replies
from support.factory_blocks import z_lab
from support.factory_qwen import MAKERS

SECTIONS = {"rope_scaling": {"mrope_section": [8, 4, 4], "mrope_interleaved": True}}
SETTINGS = {"as published": {}, "M-RoPE": SECTIONS, "text alone": {"image_context": False}}
"""Keys that are added to a published config.json."""


@pytest.fixture(scope="module", params=SETTINGS)
def case(request, backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text drafter")
    path = MAKERS["qwen3_vl"](folder / "target", seed=3)
    head = z_lab(folder / "head", seed=4)
    config = json.loads((head / "config.json").read_text()) | SETTINGS[request.param]
    (head / "config.json").write_text(json.dumps(config))
    with load(str(path), str(head), backend=backend) as engine:
        yield request.param, engine


def test_the_context_stands_where_the_config_says(case, monkeypatch):
    name, engine = case
    segment, tokens = prompt(engine, PICTURES[1], (50, 51, 52))
    target, drafter = opened(engine, segment)
    drafter.rewind(0)
    written, layers = [], drafter._forwards._layers

    def remember(context, start, positions):
        written.append((len(context), start, positions))

    def block(x, context, start, positions, sights):
        written.append((len(context), start, positions))
        return x

    monkeypatch.setattr(layers, "remember", remember)
    monkeypatch.setattr(layers, "block", block)
    drafter.extend([segment])
    drafter.draft(Plan(3), NO_NOISE)
    last = len(tokens) - 1
    columns = np.arange(last)
    if name == "text alone":
        image = engine.target.model.config.image_token_id
        columns = np.flatnonzero(np.array(tokens[:last]) != image)
    expected = target.positions(0, last + 1) if name == "M-RoPE" else np.arange(last + 1)
    expected = np.broadcast_to(expected, (3, last + 1))
    block = expected[:, last:] + np.arange(4)
    places = np.concatenate([expected[:, columns], block], axis=1)
    np.testing.assert_array_equal(np.concatenate([p for *_, p in written], axis=1), places)
    assert [start for _, start, _ in written] == [0, written[0][0]]
    assert sum(count for count, *_ in written) == len(columns)


def test_speculative_equals_plain(case):
    accepted, asked = 0, [("Which shapes?", PICTURES[1]), ("And these?", PICTURES[0])]
    for sampling, tree in ((GREEDY, None), (DRAWN, None), (DRAWN, Tree((), 3, 8))):
        options = Options(gamma=3, max_new_tokens=16, sampling=sampling, seed=2, tree=tree)
        accepted += check_replies(case[1], options, asked).answer.statistics.accepted
    assert accepted
