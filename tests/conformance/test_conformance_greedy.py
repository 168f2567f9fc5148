"""Greedy speculative decoding says, token for token, what the target says alone."""

from itertools import combinations, product

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from support import factory
from support.conformance_cases import (
    DRAFTINGS,
    GAMMAS,
    IMAGES,
    Case,
    check_replies,
    covering_cases,
    each_with_seeds,
    product_cases,
    questions,
)

BUDGET = 11


def check(engine, case, seed, **named):
    options = Options(drafting=case.drafting, gamma=case.gamma, max_new_tokens=BUDGET, **named)
    return check_replies(engine, options, questions(case, seed)).answer


def test_the_covering_set_holds_every_pair_of_values():
    pairs = {pair for case in covering_cases() for pair in paired(case)}
    factors = {"drafting": DRAFTINGS, "gamma": GAMMAS, "images": IMAGES, "turns": (1, 2)}
    for (first, ones), (second, others) in combinations(factors.items(), 2):
        for one, other in product(ones, others):
            assert ((first, one), (second, other)) in pairs
    for missing in ("drafting", "T"), *(("gamma", gamma) for gamma in GAMMAS):
        assert (missing, ("images", 0)) in pairs
    assert sum(case.turns for case in covering_cases()) >= 200


def paired(case):
    return combinations(vars(case).items(), 2)


def test_the_product_holds_everything():
    assert len(set(product_cases())) == (15 * 3 + 1) * 8 * 2
    assert set(covering_cases()) <= set(product_cases())


@each_with_seeds("drafting", DRAFTINGS)
def test_speculative_equals_plain(engine, backend, drafting, first_seed):
    cases = [case for case in covering_cases() if case.drafting == drafting]
    if backend == "mlx" and not first_seed:  # slower on CPUs: every second one, by turns
        cases = cases[DRAFTINGS.index(drafting) % 2 :: 2]
    answers = [check(engine, case, first_seed + case.gamma % 4) for case in cases]
    drafted = sum(answer.statistics.drafted for answer in answers)
    accepted = sum(answer.statistics.accepted for answer in answers)
    assert 0 < accepted < drafted


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
    for images in (1, 2, 5):
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


@pytest.mark.parametrize("weights", [(1, 0, 0), (0, 0, 1), (5, 3, 1)])
def test_weights_change_nothing(engine, weights):
    check(engine, Case("MTP", 4, 2, 2), 5, weights=weights)


@pytest.mark.parametrize("pool", [1, 4])
def test_pooled_sizes_change_nothing(engine, pool):
    check(engine, Case("MP", 4, 2, 2), 6, pool=pool)
