"""Drafted text is plain text, token for token: chains, trees, drafts that run out of positions."""

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from support import factory
from support.conformance_cases import (
    DEPTHS,
    DRAFTINGS,
    GAMMAS,
    IMAGES,
    TREES,
    Case,
    by_turns,
    check_covering,
    check_replies,
    covering_cases,
    each_with_seeds,
    product_cases,
    questions,
    tree_cases,
)

BUDGET = 11


def check(engine, case, number, **named):
    """The last answer to the questions of a number; all answers are plain ones."""
    given = {"gamma": case.gamma, "max_new_tokens": BUDGET, "tree": TREES.get(case.tree)} | named
    options = Options(drafting=case.drafting, **given)
    return check_replies(engine, options, questions(case, number)).answer


def test_the_covering_sets_hold_every_pair_of_values():
    common = {"images": IMAGES, "turns": (1, 2), "drafting": DRAFTINGS}
    check_covering(covering_cases(), gamma=GAMMAS, **common)
    check_covering(covering_cases(), gamma=GAMMAS, images=[0])
    check_covering(tree_cases(), gamma=DEPTHS, tree=TREES, **common)
    check_covering(tree_cases(), tree=TREES, images=[0])


@pytest.mark.parametrize("every", [covering_cases(), tree_cases()], ids=["chains", "trees"])
@each_with_seeds("drafting", DRAFTINGS)
def test_speculative_equals_plain(engine, backend, drafting, first_seed, every):
    cases = [case for case in every if case.drafting == drafting]
    cases = by_turns(cases, backend, first_seed, DRAFTINGS.index(drafting))
    answers = [check(engine, case, first_seed + case.gamma % 4).statistics for case in cases]
    accepted, depth, drafted = (
        sum(getattr(each, name) for each in answers) for name in ("accepted", "depth", "drafted")
    )
    assert accepted < depth <= drafted
    assert accepted or drafting == "C"  # captions alone are seldom right


@pytest.mark.slow
@pytest.mark.parametrize("drafting", DRAFTINGS)
def test_speculative_equals_plain_in_the_full_product(engine, drafting):
    cases = [case for case in product_cases() if case.drafting == drafting]
    for seed, case in enumerate(cases, start=1000):
        check(engine, case, seed)


KEPT = {"auto": "TP", "pool": "PT", "drop": "TP", "run": "MTCP"}
"""What is left of MTCP with five images: captions are long, images fit only when pooled."""


@pytest.fixture(scope="session")
def short_paths(checkpoints):
    """A draft whose positions five images exceed."""
    return factory.tiny_pair(checkpoints / "short", draft_positions=112)


@pytest.mark.parametrize("overflow", KEPT)
def test_a_draft_that_runs_out_of_positions_changes_nothing(
    backend, short_paths, overflow, monkeypatch
):
    """Branches too long to start, and (with a low bar for starting) those that end on the way."""
    engine = load(*map(str, short_paths), backend=backend)
    answer = check(engine, Case("MTCP", 3, 5, 1), 0, overflow=overflow)
    assert answer.drafting.spec == KEPT[overflow]
    monkeypatch.setattr("mmspec.chat.draft_selection.TYPICAL_ANSWER", 0)
    for images in (2, 5):
        check(engine, Case("MTC", 3, images, 2), images, overflow=overflow)


@pytest.fixture(scope="session")
def whole_paths(checkpoints):
    """A pair whose towers keep the class token: 17 positions an image, of 112 in the draft."""
    options = {"select_strategy": "full", "draft_positions": 112}
    return factory.tiny_pair(checkpoints / "whole", **options)


@pytest.mark.parametrize(("drafting", "kept"), [("P", "P"), ("M", "P"), ("MTP", "PT")])
def test_towers_that_keep_their_class_token_are_pooled(backend, whole_paths, drafting, kept):
    engine = load(*map(str, whole_paths), backend=backend)
    answer = check(engine, Case(drafting, 3, 5, 1), 0, overflow="pool")
    assert answer.drafting.spec == kept
    assert answer.statistics.drafted


def test_weights_and_pooled_sizes_change_nothing(engine):
    for weights in ((0, 0, 1), (5, 3, 1)):
        check(engine, Case("MTP", 4, 2, 2), 5, weights=weights)
    check(engine, Case("MP", 4, 2, 2), 6, pool=1)


@pytest.mark.parametrize(("tree", "temperature"), [("cut", 0.0), ("static", 0.8), ("wide", 0.8)])
def test_every_backend_keeps_the_same_tokens_of_a_tree(backends, engines, tree, temperature):
    case, told = Case("MTC", 4, 2, 2, tree), []
    sampling = Sampling(temperature, top_p=0.95)
    for name in backends:
        answer = check(engines[name], case, 8, sampling=sampling, seed=3)
        told.append([(each.tokens, each.drafted, each.accepted) for each in answer.rounds])
    assert all(each == told[0] for each in told)


@pytest.mark.parametrize("images", [1, 5])
def test_lengths_that_follow_measured_costs_change_no_token(engine, images):
    check(engine, Case("MT", 4, images, 2, "dynamic"), 4, gamma="auto", max_new_tokens=30)
