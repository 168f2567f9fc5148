"""Draft lengths chosen from measured rounds, on machines and trees that are simulated."""

import csv
import json
import random
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some
from simulate import ACCEPTANCES, TOKENS, Fixed, answer_cost, simulated

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.decoding.tree import width_for
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA, Reliability
from mmspec.draft_length.cost_curves import at_context, line
from mmspec.draft_length.policy import AdaptiveDraftLength, FixedDraftLength
from mmspec.draft_length.rank_model import surest_paths
from mmspec.draft_length.surer import SurerDraftLength
from support.simulated_machine import MACHINES, SECOND


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


def test_a_loss_is_stopped_however_wrong_the_estimates(cheap):
    """Drafting that costs ten plain rounds from the tenth round on is charged and given up."""
    length, lost = AdaptiveDraftLength(), 0
    for turn in range(500):
        gamma = length.choose(50, 100).gamma
        bad = turn >= 10 and gamma > 0
        lost += bad
        wrong = Round([0], gamma, gamma, 0, cost_seconds=10.0)
        length.observe(wrong if bad else cheap.round(gamma))
    assert lost <= 10


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
    assert lost < 100


def test_plain_rounds_are_measured_again(cheap):
    """They were measured while another program was busy; now drafts seem to pay, and do not."""
    length, chosen = AdaptiveDraftLength(), []
    for turn in range(4000):
        chosen.append(length.choose(50, 100).gamma)
        wrong = replace(cheap.round(chosen[-1]), tokens=[0], accepted=0)
        length.observe(wrong if turn > 20 else replace(wrong, cost_seconds=10.0))
    assert fmean(map(bool, chosen[2000:])) < 0.1


def test_a_longer_context_changes_the_length_at_once(cheap):
    """Verifying eight rows costs little at 100 positions and eight times a row at 5,000."""
    curves = {
        context: each.calibration(1.0)(0)
        for context, each in ((100, cheap), (5000, Machine(1.0, 0.05, 0.9)))
    }
    length = AdaptiveDraftLength(partial(at_context, curves))
    for _ in range(50):
        length.observe(cheap.round(length.choose(50, 100).gamma))
    assert max(length.choose(50, 100).gamma for _ in range(3)) >= 6  # not a trial
    assert length.choose(50, 5000).gamma <= 1
    assert 0 < length.choose(50, 2500).gamma < 8


def test_a_draft_that_finds_nothing_counts_as_plain():
    """A lookup that finds nothing costs a plain round, and is asked again."""
    each, length, chosen = Machine(0.1 / 3, 0.01, 0.8), AdaptiveDraftLength(), []
    for turn in range(300):
        chosen.append(length.choose(50, 100).gamma)
        length.observe(each.round(chosen[-1] if turn % 5 == 0 else 0))
    assert fmean(gamma > 0 for gamma in chosen[100:]) > 0.9


def test_fixed_lengths_end_with_the_budget():
    assert [FixedDraftLength(4).choose(limit, 100).gamma for limit in (9, 4, 2, 0)] == [4, 4, 2, 0]


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
        length = AdaptiveDraftLength(costs, cuts=cuts)
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
    each, length, tokens, cost = Machine(0.01, 0.0, 0.95), AdaptiveDraftLength(cuts=True), 0, 0.0
    for _ in range(100):
        plan = length.choose(50, 100)
        size = plan.pays([0.95**place for place in range(1, 9)]) if plan.pays else 0
        seconds = each.cost(size) + (size > 0) * (3 if tokens < 20 else 1)
        round_ = replace(each.round(size), cost_seconds=seconds)
        length.observe(round_)
        tokens, cost = tokens + len(round_.tokens), cost + seconds
    assert tokens / cost > 2.5


@settings(max_examples=25)
@given(some.integers(0, 99), some.sampled_from([0.0, 0.2, 1.5]))
def test_a_draft_that_is_sure_and_wrong_loses_little(seed, row):
    each = Machine(row, 0.0, 0.0, dice=random.Random(seed))
    _, cost = estimated(each, {0.95: 0.0, 0.4: 0.0}, 300, AdaptiveDraftLength(nodes=8))
    assert cost < 1.025


@given(some.floats(0.05, 0.9), some.floats(0.05, 0.99))
@example(0.5, 1.0)
def test_estimates_become_what_happens(right, estimate):
    reliability, dice = Reliability(), random.Random(0)
    for _ in range(2000):
        reliability.observe(dice.random() < right, reliability.corrected(estimate))
    assert reliability.corrected(estimate) == pytest.approx(right, abs=0.2)


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


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_the_surer_of_two_drafters_drafts_and_costs_nothing_where_it_does_not_pay(case, calibrated):
    acceptance, draft, sure, least, most = CASES[case]

    def speed(make):
        each = Machine(0.2, draft, acceptance)
        rows = Machine(0.2, 0.0, 0.0)
        costs = [it.calibration() if calibrated else None for it in (rows, each)]
        return rate(
            make(AdaptiveDraftLength(costs[0], nodes=8), AdaptiveDraftLength(costs[1])), each, sure
        )

    lookup, head = speed(lambda lookup, _: lookup)[0], speed(lambda _, head: head)[0]
    both, share = speed(SurerDraftLength)
    assert least <= share <= most
    assert both > (1.01 if case == "both" else 0.98) * max(lookup, head)


def test_lookup_is_seldom_asked_where_it_never_pays():
    each, asked = Machine(0.05, 0.1, 0.9), 0
    length = SurerDraftLength(FixedDraftLength(5), FixedDraftLength(5))
    for turn in range(100):
        asked += length.choose(50, 100 + turn).lookup is not None
        length.observe(each.round(5))
    assert 10 < asked < 30


@pytest.mark.parametrize("tokens", [1, 200])
def test_tokens_of_another_drafter_renew_the_budget_of_the_next_answer(cheap, tokens):
    length = AdaptiveDraftLength(cheap.calibration(1.0))
    while gamma := length.choose(50, 100).gamma:
        length.observe(Round([0], gamma, gamma, 0, cost_seconds=cheap.cost(gamma)))
    length.pass_by(Round([0] * tokens, tokens, tokens, tokens - 1))
    assert (length.choose(50, 1000).gamma > 0) == (tokens > 1)


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


M4, M3, FLAT, STEEPENING = MACHINES
TABLE = Path(__file__).parents[2] / "docs" / "results" / "simulated.csv"
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.mark.parametrize("acceptance", [0.2, 0.9])
def test_a_tree_accepts_what_its_nodes_promise(acceptance):
    """Every node of the tree is accepted as often as its path is the right one."""
    chances = (chance for chance, _ in surest_paths(acceptance, 32, 4, SECOND))
    round_cost = 1 + 4 * FLAT.drafted_level(width_for(32), 64)
    costs = [answer_cost(FLAT, acceptance, 2000, Fixed(Plan(4, 32)), seed) for seed in range(5)]
    assert sum(costs) / 5 == pytest.approx(2000 / (1 + sum(chances)) * round_cost, rel=0.03)


def best_choices():
    """The best fixed choice of every cell in the docs' table, in the order of its cells."""
    with TABLE.open(encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    return [text.partition(":")[0] for row in rows for text in row[2:]]


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_auto_is_never_slower_than_allowed_and_mostly_near_the_best_choice(every):
    """With few answers in each cell: `python tests/simulate.py` has more, and all fixed choices."""
    choices = [*zip(product(MACHINES, ACCEPTANCES, TOKENS), best_choices(), strict=True)]
    cells = [simulated(*which, 2, {"plain", best}) for which, best in choices[::every]]
    assert [cell for cell in cells if max(cell.auto, cell.calibrated) > 1.03] == []
    assert len([cell for cell in cells if cell.misses_best]) <= 4 // every


REAL = json.loads((SUPPORT / "right_tokens.json").read_text(encoding="utf-8"))
"""Right tokens of eight drafted at each position of answers of mini: tests/right_tokens.py."""


def real_costs(backend, prompts):
    """Cost of a round by gamma from 0 to 8 in the table of real rounds, in plain rounds."""
    costs = {0: 1.0}
    with (TABLE.parent / "auto.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            gamma = row["method"][-1]
            if (row["backend"], row["prompts"]) == (backend, prompts) and gamma.isdigit():
                costs[int(gamma)] = float(row["tokens_per_round"]) / float(row["overall"])
    return line(costs, MAX_AUTO_GAMMA)


def replayed(answers, costs, length, seed):
    """Tokens per plain round, four times through all answers, in a process that begins slowly.

    A draft that follows another one takes 4 % longer, of every hundredth round a threefold time is
    shown.
    """
    dice, tokens, cost, rounds, last = random.Random(seed), 0, 0.0, 0, 0
    for answer in 4 * answers:
        place = 0
        while place < len(answer):
            gamma = length.choose(60, 100 + place).gamma
            right = min(gamma, int(answer[place]), len(answer) - place - 1)
            seconds = costs[gamma] * (1 + 0.8 * 0.75**rounds) * (1.04 if gamma != last else 1)
            tokens, cost, rounds, last = tokens + right + 1, cost + seconds, rounds + 1, gamma
            shown = seconds * dice.uniform(0.96, 1.06) * (3 if dice.random() < 0.01 else 1)
            length.observe(Round([0] * (right + 1), gamma, gamma, right, cost_seconds=shown))
            place += right + 1
    return tokens / cost


def test_on_real_texts_auto_is_near_the_best_fixed_length():
    """The calibration says that drafts take 6 % less than they do."""
    shares = {}
    for backend, prompts in product(("torch", "mlx"), REAL):
        costs = real_costs(backend, prompts)
        calibrated = dict(enumerate([1.0, *(0.94 * cost for cost in costs[1:])]))
        play = partial(replayed, REAL[prompts], costs)
        best = max(play(Fixed(Plan(gamma)), 0) for gamma in range(MAX_AUTO_GAMMA + 1))
        auto = fmean(
            play(AdaptiveDraftLength(lambda _, c=calibrated: c), each) for each in range(3)
        )
        shares[backend, prompts] = auto / best
    assert min(shares.values()) > 0.93
    assert sum(share > 0.96 for share in shares.values()) >= 8


def chance(path, acceptance, second):
    """Probability that the ranks along a path are those of the right tokens."""
    result, second = 1.0, min(second, acceptance)
    for rank in path:
        missed = (1 - acceptance) * second * (1 - second) ** (rank - 1)
        result *= missed if rank else acceptance
    return result


@pytest.mark.parametrize("acceptance", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("nodes", "depth"), [(1, 1), (5, 2), (12, 3), (20, 4)])
def test_the_likeliest_nodes_of_all_are_in_the_tree(acceptance, nodes, depth):
    ranks = range(nodes)
    everything = [
        chance(path, acceptance, 0.45)
        for length in range(1, depth + 1)
        for path in product(ranks if length < 3 else range(4), repeat=length)
    ]
    paths = surest_paths(acceptance, nodes, depth)
    assert [each for each, _ in paths] == pytest.approx(sorted(everything)[: -nodes - 1 : -1])
    assert all(each == pytest.approx(chance(path, acceptance, 0.45)) for each, path in paths)


def test_a_length_that_saw_no_round_gives_no_reason():
    assert AdaptiveDraftLength().plain_reason() is None
