"""A head, and the hidden states it reads, continue like cold ones after whatever happened."""

import numpy as np
import pytest

from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from support import factory
from support.conformance_cases import HEADS, PICTURES
from support.segments import segment_of

IMAGE = [factory.IMAGE_TOKEN_ID] * 16
PROMPT = [1, 20, *IMAGE, 21, 22, 23, 24, 25, 26]


@pytest.fixture(scope="session", params=HEADS)
def engine(backend, headed, request):
    """Every head on every backend."""
    return headed[backend, request.param]


def opened(engine, tokens, tree=None):
    """A target that holds `tokens`, with a picture in them, and the head beside it."""
    target = engine.target.model.open_target(GREEDY)
    drafter = engine.head.head.open_drafter(target, GREEDY, tree)
    extended(target, drafter, segment_of(tokens, [engine.target.features(PICTURES[0])]))
    return target, drafter


def extended(target, drafter, segment):
    target.extend(segment)
    drafter.extend([segment])


def test_a_path_that_moves_takes_its_hidden_states_along(engine):
    target, drafter = opened(engine, PROMPT, Tree((3, 2)))
    verdict = target.verify(drafter.draft(Plan(2), NO_NOISE), NO_NOISE)
    path = [2, verdict.parents.index(2)]
    tokens = verdict.along(path)
    target.commit(path, 60)
    drafter.commit(path, [*tokens, 60], verdict)
    cold, again = opened(engine, [*PROMPT, *tokens, 60], Tree((3, 2)))
    end = target.length - 1
    captures = engine.head.kind in ("eagle3", "dflash", "dspark")
    for read in ("states", "embeddings", *(["captured"] if captures else [])):
        told, expected = (np.array(getattr(each, read)(0, end).tolist()) for each in (target, cold))
        np.testing.assert_allclose(told, expected, atol=2e-5)
    drafts = [d.draft(Plan(2), NO_NOISE) for d in (drafter, again)]
    assert target.verify(drafts[0], NO_NOISE).drafted == cold.verify(drafts[1], NO_NOISE).drafted


@pytest.mark.parametrize("keep", [len(PROMPT) - 1, 20, 2])
def test_a_head_rewound_anywhere_drafts_like_a_cold_one(engine, keep):
    """What comes after is as long as what was forgotten, so that no slot is free by chance."""
    target, drafter = opened(engine, PROMPT)
    target.rewind(keep)
    drafter.rewind(keep)
    later = [40 + 7 * place for place in range(len(PROMPT) - keep)]
    extended(target, drafter, Segment([later]))
    cold = engine.target.model.open_target(GREEDY)
    again = engine.head.head.open_drafter(cold, GREEDY, None)
    images = [engine.target.features(PICTURES[0])] if keep > 2 else []
    extended(cold, again, segment_of([*PROMPT[:keep], *later], images))
    drafts = [each.draft(Plan(6), NO_NOISE) for each in (drafter, again)]
    assert target.verify(drafts[0], NO_NOISE).drafted == cold.verify(drafts[1], NO_NOISE).drafted


@pytest.mark.parametrize("nodes", [3, 8])
def test_a_round_may_draft_a_smaller_tree_or_a_chain(engine, nodes):
    target, drafter = opened(engine, PROMPT, Tree((), 5, 30))
    target.verify(drafter.draft(Plan(2), NO_NOISE), NO_NOISE)
    _, other = opened(engine, PROMPT, Tree((), 3, 8) if nodes > 3 else None)
    drafts = drafter.draft(Plan(3, nodes), NO_NOISE), other.draft(Plan(3), NO_NOISE)
    told, expected = (target.verify(draft, NO_NOISE) for draft in drafts)
    assert (told.drafted, told.parents) == (expected.drafted, expected.parents)
