"""Heads, and drafters of text models, over targets whose positions are time, row and column."""

import json
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from test_conformance_qwen import shown

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import Plan
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.noise import NO_NOISE, Noise
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from support.conformance_cases import check_replies
from support.factory_fit import fit_head
from support.factory_heads import published, tiny_head
from support.factory_qwen import IMAGE_ID, MAKERS, ROPES, tiny_qwen2_5_vl
from support.heads_oracle import eagle2, paths
from support.mrope_oracle import QwenReference, read_columns
from support.qwen_oracle import Oracle
from support.transformers_oracle import recorded
from support.vispec_oracle import ViSpec

DRAWN = Sampling(1.0)


class QwenViSpec:
    """The head's distributions over one prompt of a Qwen2.5-VL."""

    def __init__(self, head, oracle, tokens, images):
        columns = read_columns(oracle, tokens, images)
        text = oracle.model.model.language_model
        with torch.inference_mode():
            states = text.norm(columns["layers"][-1])[:-1]
        numbers = np.cumsum([token != IMAGE_ID for token in tokens])
        image = [
            int(at) if token == IMAGE_ID else -1 for at, token in zip(numbers, tokens, strict=True)
        ]
        tensors = load_file(head / "model.safetensors")
        config = json.loads((head / "config.json").read_text())
        self._table, self._matrix = text.embed_tokens.weight, oracle.model.lm_head.weight
        self._head = ViSpec(config, tensors, columns["layers"][0], states, image)

    def says(self, drafted):
        """Probabilities [V] of the token after the drafted ones."""
        with torch.inference_mode():
            return (self._matrix @ self._head.feature(self._table[drafted])).softmax(-1)


class Case(NamedTuple):
    """A target on a backend, a head for it, transformers' model of the target, and the head's."""

    engine: object
    head: object
    oracle: Oracle
    reference: type


@pytest.fixture(scope="module", params=[*ROPES, "vispec"])
def case(request, backend, tmp_path_factory):
    """EAGLE-3 heads that turn as their target does, and a ViSpec."""
    folder, family = tmp_path_factory.mktemp("mrope"), request.param
    path = MAKERS.get(family, tiny_qwen2_5_vl)(folder / "target", seed=3)
    if family == "vispec":
        kind, given = QwenViSpec, {"qkv_bias": True, "rope_theta": 1e6}
        head = published(folder / "head", "qwen2_5_vl", views=2, **given)
    else:
        kind, given = QwenReference, {"draft_vocab_size": 270, "rope_scaling": ROPES[family]}
        head = fit_head(tiny_head(folder / "head", "eagle3", seed=4, **given), path)
    with load(str(path), str(head), backend=backend) as engine:
        yield Case(engine, head, Oracle(path), kind)


def prompt(engine, pictures, text=()):
    """A segment with text around each picture, and its token ids."""
    parts = [[20, 21, 22]]
    for number, picture in enumerate(pictures):
        parts += [engine.target.features(picture), [30 + number, 31]]
    parts[-1] = [*parts[-1], *text]
    segment = Segment(parts)
    return segment, segment.token_ids(IMAGE_ID)


def opened(engine, segment, sampling=GREEDY, tree=None):
    target = engine.target.model.open_target(sampling)
    drafter = engine.head.head.open_drafter(target, sampling, tree)
    target.extend(segment)
    drafter.extend([segment])
    return target, drafter


PICTURES = [shown(1, 52, 17), shown(2, 14, 61), []]


@pytest.mark.parametrize("pictures", PICTURES, ids=["one", "two", "none"])
def test_chains_come_from_the_heads_own_distributions(case, pictures):
    """Drawn from them, after a prompt and after a rewind; positions are the target's."""
    images = [each.image for each in pictures]
    segment, tokens = prompt(case.engine, pictures)
    target, drafter = opened(case.engine, segment, DRAWN)
    columns = read_columns(case.oracle, tokens, images)
    np.testing.assert_array_equal(target.positions(0, len(tokens)), columns["positions"])
    rows = recorded(target if case.reference is QwenViSpec else drafter._forwards._parts)
    for _ in range(2):
        reference = case.reference(case.head, case.oracle, tokens, images)
        noise = Noise(1, len(tokens))
        ids = drafter.draft(Plan(3), noise).ids.tolist()
        told = np.array([row.tolist() for row in rows[-3:]])
        for place, row in enumerate(told):
            q = np.exp(row - row.max())
            np.testing.assert_allclose(q / q.sum(), reference.says(ids[:place]), atol=1e-4)
        assert ids == HOST.sampler(DRAWN).tokens(told, HOST.keys(noise, 3)).tolist()
        for sequence in (target, drafter):
            sequence.rewind(len(tokens) - 1)
        later = Segment([[40, 41, 42, 43]])
        target.extend(later)
        drafter.extend([later])
        tokens = [*tokens[:-1], 40, 41, 42, 43]


def test_dynamic_trees_are_those_grown_path_by_path(case):
    pictures = PICTURES[0]
    segment, tokens = prompt(case.engine, pictures, (50, 51))
    _, drafter = opened(case.engine, segment, tree=Tree((), 3, 9))
    reference = case.reference(case.head, case.oracle, tokens, [pictures[0].image])
    grown = eagle2(reference, width=3, nodes=9, depth=3)
    assert paths(drafter.draft(Plan(3), NO_NOISE)) == grown


def check_lossless(engine, asked):
    """Hold chains and trees, greedy and drawn, to plain answers; some drafted tokens are right."""
    accepted = 0
    for sampling, tree in product((GREEDY, DRAWN), (None, Tree((), 3, 8))):
        options = Options(gamma=3, max_new_tokens=16, sampling=sampling, seed=2, tree=tree)
        accepted += check_replies(engine, options, asked).answer.statistics.accepted
    assert accepted


ASKED = [("Which shapes?", PICTURES[1]), ("And these?", PICTURES[0])]


def test_speculative_equals_plain(case):
    check_lossless(case.engine, ASKED)
