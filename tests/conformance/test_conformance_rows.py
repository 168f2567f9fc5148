"""A model's own sequences: cut anywhere, of uneven rows, fed with drafts that the host proposes."""

import numpy as np
import pytest

from mmspec.chat.options import Options
from mmspec.chat.plugins import load_backend
from mmspec.decoding.contract import Segment
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from mmspec.families.grid import Grid
from support import factory
from support import sequence_helpers as helpers
from support.conformance_cases import (
    by_turns,
    check_replies,
    covering_cases,
    each_with_seeds,
    questions,
)
from support.segments import features, flat, segment_of


@pytest.fixture(scope="session")
def pair(engine):
    """A target's model and a draft's."""
    return [engine.target.model, engine.draft.model]


@pytest.fixture(scope="session")
def views(pair):
    """One prompt of two images as M, T and P see it."""
    return helpers.views_of(pair[0])


def test_a_target_cut_anywhere_continues_like_a_cold_one(pair, views):
    """Also inside an image, and with nothing appended to nothing."""
    target = pair[0].open_target(GREEDY)
    target.extend(Segment([[]]))
    for cut in (0, 2, 5, 12, 19, 22, 23, 38, 42, 45):
        target.rewind(0)
        target.extend(views[0])
        tokens = helpers.plain(target, 3)
        target.rewind(cut)
        assert target.length == cut
        target.extend(Segment([[50, 51]]))
        target.extend(Segment([[52]]))
        cold = helpers.target(pair[0], beginning(views[0], tokens, cut))
        np.testing.assert_allclose(target.logits(), cold.logits(), atol=1e-5)


def beginning(segment, tokens, cut):
    """The first `cut` tokens, the last image perhaps not whole, then three more of text."""
    ids = [*flat(segment), *tokens][:cut]
    left, images = ids.count(helpers.IMAGE), []
    for image in features(segment):
        if left:
            images.append(type(image)(image.rows[:left], Grid(1, min(left, image.positions))))
        left = max(left - image.positions, 0)
    return segment_of([*ids, 50, 51, 52], images)


def test_a_row_of_one_token_beside_longer_ones_drafts_as_alone(pair):
    """Its first columns are padding alone."""
    short = Segment([[42]])
    together, alone = (helpers.branches(pair[1], rows) for rows in ([short, helpers.TEXT], [short]))
    assert helpers.draft(together, 4, 1.0, 0.0).ids.tolist() == helpers.draft_ids(alone, 4)


def test_positions_past_the_trained_ones_still_run(backend, tmp_path):
    model = load_backend(backend).load(factory.tiny_llama(tmp_path / "a", positions=32))
    rows = [[4 + place % 300 for place in range(length)] for length in (700, 4)]
    drafter = helpers.branches(model, [Segment([row, [9]]) for row in rows])
    assert len(helpers.draft_ids(drafter, 5)) == 5


def test_rows_must_be_complete_and_end_alike(pair, views):
    drafter = helpers.branches(pair[1], views)
    with pytest.raises(ValueError, match="same token"):
        drafter.extend([Segment([[5]]), Segment([[6]]), Segment([[5]])])
    with pytest.raises(ValueError, match="3 branches"):
        drafter.extend([Segment([[5]])])


@each_with_seeds("drafting", ["lookup"])
def test_lookup_says_what_the_target_says(engine, backend, drafting, first_seed):
    drafted = accepted = 0
    cases = [case for case in covering_cases() if case.drafting == "T"]
    for case in by_turns(cases, backend, first_seed):
        tree = Tree(nodes=12) if case.gamma % 2 else None
        options = Options(drafting=drafting, gamma=case.gamma, tree=tree, max_new_tokens=14)
        chat = check_replies(engine, options, questions(case, first_seed + case.gamma % 4))
        drafted += chat.answer.statistics.drafted
        accepted += chat.answer.statistics.accepted
    assert 0 < accepted <= drafted
