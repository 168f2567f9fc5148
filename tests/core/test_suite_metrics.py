"""Measures over rows, by hand and by numpy."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mmspec_bench.suite import metrics
from mmspec_bench.suite.prediction import (
    StepCosts,
    costs_for,
    formula_speed_up,
    predicted_speed_up,
)
from mmspec_bench.suite.summary import summarise
from support.suite_row import plain, row, seconds

# Two answers: rounds (drafted, accepted, emitted) of gamma 3.
SHORT = row("a/0", rounds=[(3, 3, 4), (1, 0, 1)], seconds=seconds(1.0, 4.0))
LONG = row("b/0", rounds=[(3, 1, 2), (3, 0, 1), (3, 2, 2)], seconds=seconds(5.0, 6.0))
ROWS = [SHORT, LONG]
PLAIN = [
    plain("a/0", 5, seconds=seconds(2.0, 5.0)),
    plain("b/0", 5, seconds=seconds(4.0, 5.0)),
]


def test_block_efficiency_pools_rounds_or_averages_answers():
    assert metrics.block_efficiency(ROWS) == 10 / 5
    assert metrics.macro_block_efficiency(ROWS) == pytest.approx((5 / 2 + 5 / 3) / 2)
    assert metrics.block_efficiency(ROWS, bonus=False) == 6 / 5
    assert metrics.macro_block_efficiency(ROWS, bonus=False) == pytest.approx((3 / 2 + 3 / 3) / 2)


def test_plain_decoding_is_one_token_a_round():
    assert metrics.block_efficiency(PLAIN) == metrics.macro_block_efficiency(PLAIN) == 1
    assert metrics.block_efficiency(PLAIN, bonus=False) == 0
    assert metrics.acceptance_rate(PLAIN) == 0
    assert metrics.acceptance_by_position(PLAIN) == []


def test_acceptance():
    assert metrics.acceptance_rate(ROWS) == 6 / 13
    # Position 1 was drafted five times and kept in rounds 1, 3 and 5; the short round counts once.
    assert metrics.acceptance_by_position(ROWS) == [3 / 5, 2 / 4, 1 / 4]
    assert metrics.acceptance_by_position(ROWS, conditional=True) == [3 / 5, 2 / 3, 1 / 2]


def test_acceptance_by_position_against_numpy():
    draws = np.random.default_rng(0)
    drafted = draws.integers(1, 6, 200)
    accepted = np.minimum(draws.integers(0, 6, 200), drafted)
    rounds = [(int(d), int(a), int(a) + 1) for d, a in zip(drafted, accepted, strict=True)]
    expected = [(accepted[drafted >= i] >= i).mean() for i in range(1, 6)]
    assert metrics.acceptance_by_position([row(rounds=rounds)]) == pytest.approx(expected)
    reached = [(drafted >= i) & (accepted >= i - 1) for i in range(1, 6)]
    expected = [(accepted[some] >= i).mean() for i, some in enumerate(reached, start=1)]
    assert metrics.acceptance_by_position([row(rounds=rounds)], conditional=True) == pytest.approx(
        expected
    )


def test_of_a_tree_one_node_of_a_level_can_be_accepted():
    tree = row(rounds=[(20, 3, 4, 3), (20, 1, 2, 3), (6, 0, 1, 2)])
    assert metrics.acceptance_rate([tree]) == 4 / 8
    assert metrics.acceptance_by_position([tree]) == [2 / 3, 1 / 3, 1 / 2]
    assert metrics.acceptance_by_position([tree], conditional=True) == [2 / 3, 1 / 2, 1 / 1]
    assert metrics.block_efficiency([tree]) == 7 / 3


def test_speed_ups_pair_the_same_questions():
    paired = metrics.pairs([*ROWS, row("only here/0")], PLAIN[::-1])
    assert [(a.key, b.key) for a, b in paired] == [(p.key, p.key) for p in PLAIN]
    # Decoding: 5/1 over 5/2, and 5/5 over 5/4.
    assert metrics.paired_speed_ups(paired) == pytest.approx([2.0, 0.8])
    assert metrics.global_speed_up(paired) == pytest.approx((10 / 6) / (10 / 6))
    end_to_end = "total"
    assert metrics.paired_speed_ups(paired, end_to_end) == pytest.approx([5 / 4, 5 / 6])
    assert metrics.global_speed_up(paired, end_to_end) == pytest.approx(1.0)


def test_turns_are_different_questions():
    assert not metrics.pairs([row(turn=1)], [plain()])


def test_percentiles_of_speeds_name_the_slow_end():
    speeds = [float(n) for n in range(1, 101)]
    assert metrics.reached_by(speeds, 50) == np.percentile(speeds, 50)
    assert metrics.reached_by(speeds, 95) == np.percentile(speeds, 5)
    assert sum(speed >= metrics.reached_by(speeds, 95) for speed in speeds) == 95
    assert metrics.percentile([], 50) == 0


def test_stages_are_means_and_the_loop_is_what_is_left():
    rows = [
        row(seconds=seconds(4.0, 9.0, draft=1.0, verify=2.0, vision=3.0, caption=1.0)),
        row(seconds=seconds(6.0, 9.0, draft=2.0, verify=2.0, prefill=5.0)),
    ]
    expected = {"vision": 1.5, "caption": 0.5, "prefill": 2.5, "draft": 1.5, "verify": 2.0}
    assert metrics.stage_seconds(rows) == expected | {"loop": 1.5}


def test_what_was_not_compared_counts_neither_way():
    rows = [row(identical=True), row(identical=False), row(identical=None), row(identical=True)]
    assert metrics.identical_rate(rows) == pytest.approx(2 / 3)
    assert metrics.identical_rate([row()]) is None


def test_facts_are_pooled():
    rows = [row(facts={"asked": 3, "right": 2}), row(), row(facts={"asked": 1, "right": 0})]
    assert metrics.facts_right(rows) == (2, 4)


COSTS = StepCosts(1, 100, target=[1.0, 1.1, 1.2, 1.5], draft=[0.1, 0.2])


def test_the_formula_is_tau_over_gamma_c_and_the_verify_factor():
    expected = (10 / 5) / (3 * (0.1 / 1.0) + 1.5 / 1.0)
    assert formula_speed_up(ROWS, [COSTS]) == pytest.approx(expected)


def test_the_prediction_counts_each_round_as_it_was():
    # Drafts of 3, 1, 3, 3, 3; rounds of 4, 2, 4, 4, 4 rows.
    ours = 4 * (3 * 0.1 + 1.5) + (0.1 + 1.1)
    assert predicted_speed_up(ROWS, [COSTS]) == pytest.approx(10 * 1.0 / ours)
    assert predicted_speed_up(PLAIN, [COSTS]) == 1


def test_two_branches_cost_what_two_were_measured_to():
    two = [row(rounds=[(3, 2, 3)], branches=("M", "T"))]
    assert predicted_speed_up(two, [COSTS]) == pytest.approx(3 / (3 * 0.2 + 1.5))


def test_costs_are_those_of_the_nearest_number_of_images():
    five = StepCosts(5, 900, [2.0] * 4, [0.3] * 2)
    assert costs_for(row(images=4), [COSTS, five]) is five
    assert costs_for(row(images=2), [COSTS, five]) is COSTS


def test_n_grams_are_drafted_by_no_model():
    looked_up = [row(method="ngram", rounds=[(3, 2, 3), (0, 0, 1)], branches=("T",))]
    alone = StepCosts(1, 100, COSTS.target, [])
    for measured in (COSTS, alone):
        assert predicted_speed_up(looked_up, [measured]) == pytest.approx(4 / (1.5 + 1.0))


def test_rounds_without_a_draft_are_plain_ones():
    skipped = [row(rounds=[(0, 0, 1), (3, 2, 3)])]
    assert predicted_speed_up(skipped, [COSTS]) == pytest.approx(4 / (1.0 + 3 * 0.1 + 1.5))


def test_weights_are_fitted_before_every_draft_but_the_first():
    measured = replace(COSTS, refit=[0.0, 0.4])
    rounds = [(3, 2, 3), (0, 0, 1), (3, 0, 1), (1, 1, 2)]
    fixed = row(rounds=rounds, branches=("M", "T"))
    fitted = replace(fixed, weights=[[0.5, 0.5], [], [1.0, 0.0], [0.9, 0.1]])
    drafted, verified = 7 * 0.2, 1.5 + 1.0 + 1.5 + 1.1
    assert predicted_speed_up([fitted], [measured]) == pytest.approx(7 / (drafted + verified + 0.8))
    # Without adaptive weights, and in runs that did not measure fits, there is no such part.
    without = pytest.approx(7 / (drafted + verified))
    assert predicted_speed_up([fixed], [measured]) == without
    assert predicted_speed_up([fitted], [COSTS]) == without
    # The papers' formula has no place for it.
    formulas = {formula_speed_up([each], [measured]) for each in (fixed, fitted)}
    assert len(formulas) == 1


def test_trees_cost_their_levels_and_one_verification_each():
    measured = replace(COSTS, trees={"tree:M": [0.3, 2.5]})
    rounds = [(60, 2, 3, 5), (9, 1, 2, 3), (0, 0, 1)]
    grown = [row(method="tree:M", rounds=rounds)]
    expected = 6 / ((5 + 3) * 0.3 + 2 * 2.5 + 1.0)
    assert predicted_speed_up(grown, [measured]) == pytest.approx(expected)
    assert formula_speed_up(grown, [measured]) == 0
    assert costs_for(replace(grown[0], method="tree20:M"), [measured]) is None


def test_what_was_not_measured_is_not_predicted():
    assert costs_for(row(rounds=[(9, 0, 1)]), [COSTS]) is None
    assert costs_for(row(branches=("M", "T", "C")), [COSTS]) is None
    assert costs_for(row(rounds=[(3, 1, 2, 2)]), [COSTS]) is None
    assert predicted_speed_up(ROWS, []) == formula_speed_up(ROWS, []) == 0


def test_a_summary_holds_everything_and_nothing_of_nothing():
    whole = summarise(ROWS, PLAIN, [COSTS])
    assert (whole.method, whole.answers, whole.rounds, whole.tokens) == ("M", 2, 5, 10)
    assert whole.speed_up_paired == pytest.approx(1.4)
    assert whole.first_token_p50 == 0.5
    assert json.loads(json.dumps(whole.as_dict()))["block_efficiency"] == 2
    empty = summarise([], PLAIN)
    assert (empty.answers, empty.block_efficiency, empty.identical) == (0, 0, None)


def test_refused_answers_have_no_speed():
    refused = row(rounds=[], finish_reason="refused", seconds=seconds(0.0, 0.0, first_token=0.0))
    assert metrics.tokens_per_second([refused, SHORT]) == [5.0]
    assert metrics.first_token_seconds([refused, SHORT]) == [0.5]


def test_weights_by_round_leave_out_rounds_that_drafted_nothing():
    rounds = [(3, 2, 3), (3, 0, 1), (0, 0, 1)]
    some = row(rounds=rounds, branches=["M", "P36"], weights=[[0.5, 0.5], [0.75, 0.25], []])
    other = row(rounds=rounds[:1], branches=["M", "P36"], weights=[[0.0, 1.0]])
    assert metrics.weights_by_round([some, other], "M") == [0.25, 0.75]
    assert metrics.weights_by_round([some], "T") == [0.0, 0.0]
