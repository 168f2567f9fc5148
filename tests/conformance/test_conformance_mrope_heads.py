"""EAGLE-3 heads whose positions are time, row and column draft as transformers turns them."""

from typing import NamedTuple

import numpy as np
import pytest
from test_conformance_qwen import shown

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import Plan
from mmspec.decoding.host_framework import keys, sampler
from mmspec.decoding.noise import NO_NOISE, Noise
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from support.conformance_cases import check_replies
from support.factory_fit import fit_head
from support.factory_heads import tiny_head
from support.factory_qwen import IMAGE_ID, MAKERS, ROPES
from support.heads_oracle import eagle2
from support.mrope_oracle import QwenReference, read_columns
from support.qwen_oracle import Oracle
from support.transformers_oracle import recorded

DRAWN = Sampling(1.0)


class Case(NamedTuple):
    """A target on a backend, a head for it, and transformers' model of the target."""

    engine: object
    head: object
    oracle: Oracle


@pytest.fixture(scope="module", params=ROPES)
def case(request, backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mrope")
    path = MAKERS[request.param](folder / "target", seed=3)
    given = {"draft_vocab_size": 270, "rope_scaling": ROPES[request.param]}
    head = fit_head(tiny_head(folder / "head", "eagle3", seed=4, **given), path)
    with load(str(path), str(head), backend=backend) as engine:
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
    target = engine.target.model.open_target(sampling)
    drafter = engine.head.head.open_drafter(target, sampling, tree)
    target.extend(segment)
    drafter.extend([segment])
    return target, drafter


PICTURES = [shown(1, 52, 17), shown(2, 14, 61), []]


@pytest.mark.parametrize("pictures", PICTURES, ids=["one", "two", "none"])
def test_the_targets_positions_are_transformers(case, pictures):
    segment, tokens = prompt(case.engine, pictures)
    target, _ = opened(case.engine, segment)
    columns = read_columns(case.oracle, tokens, [each.image for each in pictures])
    np.testing.assert_array_equal(target.positions(0, len(tokens)), columns["positions"])


@pytest.mark.parametrize("pictures", PICTURES, ids=["one", "two", "none"])
def test_chains_come_from_the_heads_own_distributions(case, pictures):
    """Drawn from them, after a prompt and after a round and a rewind."""
    images = [each.image for each in pictures]
    segment, tokens = prompt(case.engine, pictures)
    target, drafter = opened(case.engine, segment, DRAWN)
    rows = recorded(drafter._forwards._parts)
    for _ in range(2):
        reference, noise = (
            QwenReference(case.head, case.oracle, tokens, images),
            Noise(1, len(tokens)),
        )
        ids = drafter.draft(Plan(3), noise).ids.tolist()
        told = np.array([row.tolist() for row in rows[-3:]])
        for place, row in enumerate(told):
            q = np.exp(row - row.max())
            np.testing.assert_allclose(q / q.sum(), reference.says(ids[:place]), atol=1e-4)
        assert ids == sampler(DRAWN).tokens(told, keys(noise, 3)).tolist()
        for sequence in (target, drafter):
            sequence.rewind(len(tokens) - 1)
        later = Segment([[40, 41, 42, 43]])
        target.extend(later)
        drafter.extend([later])
        tokens = [*tokens[:-1], 40, 41, 42, 43]


def paths(draft):
    """Every node of a tree by the tokens that lead to it."""
    found = []
    for token, parent in zip(draft.ids.tolist(), draft.parents.tolist(), strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return set(found)


def test_dynamic_trees_are_those_grown_path_by_path(case):
    pictures = PICTURES[0]
    segment, tokens = prompt(case.engine, pictures, (50, 51))
    _, drafter = opened(case.engine, segment, tree=Tree((), 3, 9))
    reference = QwenReference(case.head, case.oracle, tokens, [pictures[0].image])
    grown = eagle2(reference, width=3, nodes=9, depth=3)
    assert paths(drafter.draft(Plan(3), NO_NOISE)) == grown


def test_speculative_equals_plain(case):
    accepted, asked = 0, [("Which shapes?", PICTURES[1]), ("And these?", PICTURES[0])]
    for sampling in (GREEDY, DRAWN):
        for tree in (None, Tree((), 3, 8)):
            options = Options(gamma=3, max_new_tokens=16, sampling=sampling, seed=2, tree=tree)
            accepted += check_replies(case.engine, options, asked).answer.statistics.accepted
    assert accepted
