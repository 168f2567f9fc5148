"""Heads, and drafters of text models, over targets whose positions are time, row and column."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from test_conformance_qwen import shown

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from mmspec.prompt.clips import clip_of
from mmspec.prompt.images import picture_from
from support.conformance_cases import check_replies
from support.factory_fit import fit_head
from support.factory_heads import tiny_head
from support.factory_published import published
from support.factory_qwen import IMAGE_ID, ROPES, tiny_qwen
from support.films import drawing
from support.heads_oracle import Reference, check_chain, eagle2, paths
from support.qwen_oracle import Oracle
from support.sequence_helpers import beside

DRAWN = Sampling(1.0)


class Case(NamedTuple):
    """A target on a backend, a head for it, and transformers' model of the target."""

    engine: object
    head: object
    oracle: Oracle

    def reference(self, tokens, images):
        """The head over a prompt."""
        columns = self.oracle.columns(tokens, images)
        return Reference(self.head, self.oracle.model, tokens, columns, IMAGE_ID)


@pytest.fixture(scope="module", params=[*ROPES, "vispec"])
def case(request, backend, tmp_path_factory):
    """EAGLE-3 heads that turn as their target does, and a ViSpec."""
    folder, family = tmp_path_factory.mktemp("mrope"), request.param
    kind = "qwen2_5_vl" if family == "vispec" else family
    path = tiny_qwen(kind, folder / "target", seed=3)
    if family == "vispec":
        given = {"qkv_bias": True, "rope_theta": 1e6}
        head = published(folder / "head", "qwen2_5_vl", views=2, **given)
    else:
        given = {"draft_vocab_size": 270, "rope_scaling": ROPES[family]}
        head = fit_head(tiny_head(folder / "head", "eagle3", seed=4, **given), path)
    with load(path, head, backend=backend) as engine:
        yield Case(engine, head, Oracle(path))


def prompt(engine, pictures, text=()):
    """A segment with text around each picture, and its token ids."""
    parts = [[20, 21, 22]]
    for number, picture in enumerate(pictures):
        parts += [engine.target.features(picture), [30 + number, 31]]
    parts[-1] = [*parts[-1], *text]
    segment = Segment(parts)
    return segment, segment.token_ids(IMAGE_ID)


def opened(engine, segment, sampling=GREEDY, tree=None):
    return beside(engine.target.model, engine.head.head, segment, sampling, tree)


PICTURES = [shown(1, 52, 17), shown(2, 14, 61), []]


@pytest.mark.parametrize("pictures", PICTURES, ids=["one", "two", "none"])
def test_chains_come_from_the_heads_own_distributions(case, pictures):
    """Drawn from them, after a prompt and after a rewind; positions are the target's."""
    images = [each.image for each in pictures]
    segment, tokens = prompt(case.engine, pictures)
    target, drafter = opened(case.engine, segment, DRAWN)
    expected = case.oracle.columns(tokens, images).positions
    np.testing.assert_array_equal(target.positions(0, len(tokens)), expected)
    for _ in range(2):
        check_chain(target, drafter, case.reference(tokens, images))
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
    reference = case.reference(tokens, [pictures[0].image])
    grown = eagle2(reference, width=3, nodes=9, depth=3)
    assert paths(drafter.draft(Plan(3), NO_NOISE)) == grown


def check_lossless(engine, asked):
    """Hold chains and trees, greedy and drawn, to plain answers; some drafted tokens are right."""
    accepted = 0
    for sampling, tree in product((GREEDY, DRAWN), (None, Tree((), 3, 8))):
        options = Options(gamma=3, max_new_tokens=16, sampling=sampling, seed=2, tree=tree)
        accepted += check_replies(engine, options, asked).answer.statistics.accepted
    assert accepted


FRAMES = [picture_from(drawing(number, (40, 24))) for number in range(4)]
CLIP = clip_of(FRAMES, [0, 5, 10, 15], total=20, rate=10.0)
ASKED = [("Which shapes?", PICTURES[1]), ("And these?", PICTURES[0]), ("And now?", [CLIP])]


def test_speculative_equals_plain(case):
    check_lossless(case.engine, ASKED)
