"""Draft lengths chosen from measured rounds, on machines that are simulated."""

import random
from dataclasses import dataclass, field, replace
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.policy import AdaptiveDraftLength, FixedDraftLength
from mmspec.drafters.surer import SurerDraftLength


@dataclass
class Machine:
    """Verifies r rows in 1 + (r - 1) * row plain rounds; a drafted token takes `draft` of them."""

    row: float
    draft: float
    acceptance: float
    dice: random.Random = field(default_factory=lambda: random.Random(0))

    def cost(self, gamma):
        return 1 + gamma * (self.row + self.draft)

    def round(self, gamma):
        accepted = 0
        while accepted < gamma and self.dice.random() < self.acceptance:
            accepted += 1
        return Round([0] * (accepted + 1), gamma, gamma, accepted, cost_seconds=self.cost(gamma))

    def calibration(self, scale=0.2):
        """What was measured of it on another day, at another speed."""
        costs = {gamma: scale * self.cost(gamma) for gamma in range(MAX_AUTO_GAMMA + 1)}
        return lambda context: costs


@pytest.fixture
def cheap():
    """Of which four rows cost a tenth more than one."""
    return Machine(0.1 / 3, 0.05, 0.9)


def test_a_clock_that_shows_no_time_ends_no_answer(cheap):
    length = AdaptiveDraftLength(cheap.calibration())
    for turn in range(100):
        round_ = cheap.round(length.choose(50, 100).gamma)
        length.observe(replace(round_, cost_seconds=float(turn % 7 == 0)))


def test_a_draft_that_costs_more_than_all_its_tokens_bring_is_not_tried():
    dear = Machine(row=0.1, draft=1.0, acceptance=0.9)
    length = AdaptiveDraftLength(dear.calibration())
    for _ in range(600):
        gamma = length.choose(50, 100).gamma
        assert not gamma
        length.observe(dear.round(gamma))


@pytest.mark.parametrize("calibrated", [True, False])
def test_a_draft_that_becomes_slow_is_given_up_although_its_tokens_are_right(cheap, calibrated):
    """From the hundredth round on every draft takes eight times as long as before."""
    length = AdaptiveDraftLength(cheap.calibration() if calibrated else None)
    lost = 0.0
    for turn in range(600):
        round_ = cheap.round(gamma := length.choose(50, 100).gamma)
        if gamma and turn > 100:
            round_ = replace(round_, cost_seconds=8 * round_.cost_seconds)
            lost += round_.cost_seconds - len(round_.tokens)
        length.observe(round_)
    assert lost < 120


def test_plain_rounds_are_measured_again(cheap):
    """They were measured while another program was busy; now drafts seem to pay, and do not."""
    length, chosen = AdaptiveDraftLength(), []
    for turn in range(2000):
        chosen.append(length.choose(50, 100).gamma)
        wrong = replace(cheap.round(chosen[-1]), tokens=[0], accepted=0)
        length.observe(wrong if turn > 20 else replace(wrong, cost_seconds=10.0))
    assert fmean(map(bool, chosen[1000:])) < 0.1


def estimated(each, sure, rounds, length):
    """Rounds of eight drafted nodes with the estimates 0.95 or 0.4; their sizes and cost."""
    sizes, cost = [], 0.0
    for _ in range(rounds):
        chance = 0.95 if each.dice.random() < 0.5 else 0.4
        chances = [chance**place for place in range(1, 9)]
        plan, right = length.choose(50, 100), 0
        size = plan.pays(chances) if plan.gamma and plan.pays else 0
        while right < size and each.dice.random() < sure[chance]:
            right += 1
        sizes.append((chance, size))
        seconds = each.cost(size) * each.dice.uniform(0.95, 1.05)
        cost += each.cost(size) - right
        length.observe(Round([0] * (right + 1), size, size, right, cost_seconds=seconds))
    return sizes, cost / rounds


def test_a_block_that_is_tried_is_verified_as_far_as_one_rejection_may_cost():
    length = AdaptiveDraftLength(
        lambda _: {n: 1.4 if n else 1.0 for n in range(9)}, drafts_blocks=True
    )
    for _ in range(2):
        plan = length.choose(50, 100)
        assert plan.pays([0.99] * 8) == 8
        length.observe(Round([0], 8, 8, 0, cost_seconds=1.4))


@pytest.mark.parametrize("calibrated", [True, False])
def test_a_sure_draft_is_verified_and_an_unsure_one_cut_away(calibrated):
    """The estimates are too high: the sure one is right in 0.8 of all cases, the other in 0.1."""
    each = Machine(0.2, 0.0, 0.0)
    costs = each.calibration() if calibrated else None
    sizes, cost = estimated(each, {0.95: 0.8, 0.4: 0.1}, 400, AdaptiveDraftLength(costs, nodes=8))
    sure, unsure = ([n for chance, n in sizes[100:] if chance == which] for which in (0.95, 0.4))
    assert fmean(unsure) < 0.5 < 2 < fmean(sure)
    assert cost < 0.8


@pytest.mark.parametrize("calibrated", [True, False])
def test_a_block_is_cut_where_a_row_costs_more_than_it_brings(calibrated):
    """Half of the blocks are sure, and right in 0.95 of all cases; the other in 0.3."""

    def rate(cuts):
        each, tokens, cost = Machine(0.3, 0.0, 0.0), 0, 0.0
        costs = each.calibration() if calibrated else None
        length = AdaptiveDraftLength(costs, drafts_blocks=cuts)
        for _ in range(1000):
            each.acceptance = 0.95 if each.dice.random() < 0.5 else 0.3
            plan = length.choose(50, 100)
            chances = [each.acceptance**place for place in range(1, plan.gamma + 1)]
            round_ = each.round(plan.pays(chances) if plan.pays else plan.gamma)
            length.observe(round_)
            tokens, cost = tokens + len(round_.tokens), cost + round_.cost_seconds
        return tokens / cost

    assert rate(cuts=True) > 1.15 * rate(cuts=False)


def test_a_block_is_drafted_at_once_although_its_first_round_is_slow():
    """It takes two plain rounds, of which a row is a hundredth, and the first time four."""
    each, length = Machine(0.01, 0.0, 0.95), AdaptiveDraftLength(drafts_blocks=True)
    tokens, cost, extra = 0, 0.0, 3.0
    for _ in range(100):
        plan = length.choose(50, 100)
        size = plan.pays([0.95**place for place in range(1, 9)]) if plan.pays else 0
        seconds = each.cost(size) + (extra if size else 0)
        extra = 1.0 if size else extra
        round_ = replace(each.round(size), cost_seconds=seconds)
        length.observe(round_)
        tokens, cost = tokens + len(round_.tokens), cost + seconds
    assert tokens / cost > 2.5


def test_a_block_of_which_one_token_is_drafted_in_vain_is_trusted_less():
    each = Machine(0.3, 0.0, 0.0)
    length = AdaptiveDraftLength(each.calibration(), drafts_blocks=True)
    before = length._reliability.correct(0.5)
    for _ in range(100):
        assert not length.pays([0.05])
        length.observe(each.round(1))
    assert length._reliability.correct(0.5) < before


@settings(max_examples=12)
@given(some.integers(0, 99), some.sampled_from([0.0, 0.2, 1.5]))
def test_a_draft_that_is_sure_and_wrong_loses_little(seed, row):
    each = Machine(row, 0.0, 0.0, dice=random.Random(seed))
    _, cost = estimated(each, {0.95: 0.0, 0.4: 0.0}, 300, AdaptiveDraftLength(nodes=8))
    assert cost < 1.025


def rate(length, each, sure, rounds=1500):
    """Tokens per plain round, and the share of rounds that lookup drafted.

    In passages of half the rounds lookup estimates 0.95 for a token, and `sure` of them are right;
    else that 0.4 are, of which 0.1 are.  `each` drafts for the head.
    """
    tokens, cost, by_lookup, is_copy = 0, 0.0, 0, False
    for _ in range(rounds):
        plan = length.choose(50, 100 + tokens)
        is_copy ^= each.dice.random() < 1 / 16
        chance, right = (0.95, sure) if is_copy else (0.4, 0.1)
        chances = [chance**place for place in range(1, 9)]
        lookup = plan if plan.pays else plan.lookup
        if size := lookup.pays(chances) if lookup and lookup.gamma else 0:
            round_ = Machine(each.row, 0.0, right, each.dice).round(size)
            round_ = replace(round_, by_lookup=True)
        else:
            round_ = each.round(0 if plan.pays else plan.gamma)
        length.observe(round_)
        by_lookup += round_.by_lookup
        tokens, cost = tokens + len(round_.tokens), cost + round_.cost_seconds
    return tokens / cost, by_lookup / rounds


CASES = {  # acceptance of the head, its cost, of lookup's sure tokens: bounds of lookup's share
    "lookup alone pays": (0.1, 0.3, 0.9, 0.4, 1.0),
    "the head alone pays": (0.9, 0.05, 0.2, 0.0, 0.1),
    "both": (0.8, 0.05, 0.95, 0.3, 0.6),
}


@pytest.mark.parametrize(("case", "calibrated"), [*zip(CASES, (True, False, True), strict=True)])
def test_the_surer_of_two_drafters_drafts_and_costs_nothing_where_it_does_not_pay(case, calibrated):
    acceptance, draft, sure, least, most = CASES[case]

    def speed(make):
        each = Machine(0.2, draft, acceptance)
        rows = Machine(0.2, 0.0, 0.0)
        costs = [it.calibration() if calibrated else None for it in (rows, each)]
        own = AdaptiveDraftLength(costs[0], nodes=8), AdaptiveDraftLength(costs[1])
        return rate(make(*own), each, sure)

    lookup, head = speed(lambda lookup, _: lookup)[0], speed(lambda _, head: head)[0]
    both, share = speed(SurerDraftLength)
    assert least <= share <= most
    assert both > (1.01 if case == "both" else 0.98) * max(lookup, head)


def test_lookup_is_asked_in_half_of_all_rounds_where_it_never_pays():
    each, plans = Machine(0.05, 0.1, 0.9), []
    length = SurerDraftLength(FixedDraftLength(5), FixedDraftLength(5))
    for turn in range(100):
        plans.append(length.choose(50, 100 + turn))
        length.observe(each.round(5))
    assert sum(plan.lookup is not None for plan in plans) == 50


def test_with_a_fixed_length_the_surer_drafts_all_of_it():
    each = Machine(0.05, 0.1, 0.7)
    for sure, least, most in ((0.95, 0.4, 0.6), (0.3, 0.0, 0.1)):
        length = SurerDraftLength(FixedDraftLength(5), FixedDraftLength(5))
        assert least <= rate(length, each, sure)[1] <= most


def test_chains_are_told_to_the_drafter_as_chains(cheap):
    """A drafter that was opened with a tree drafts a chain if it may have gamma nodes."""
    costs = cheap.calibration(1.0)
    plan = AdaptiveDraftLength(costs, {}).choose(50, 100)
    assert plan.gamma == plan.nodes > 4
    assert AdaptiveDraftLength(costs).choose(50, 100) == Plan(plan.gamma)
