"""Draft lengths chosen from measured rounds, on simulated machines and clocks."""

import random
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from statistics import fmean

import pytest

from mmspec.decoding.acceptance import FirstChoices
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.cost_curves import at_context
from mmspec.draft_length.draft_kind import uncalibrated
from mmspec.draft_length.policy import AdaptiveDraftLength, FixedDraftLength
from mmspec.draft_length.rank_model import surest_paths


@dataclass
class Machine:
    """Verifies r rows in 1 + (r - 1) * row plain rounds; a drafted token takes `draft` of them."""

    row: float
    draft: float
    acceptance: float
    jump: float = 0.0
    """Added as soon as there is more than one row."""
    noise: float = 0.05
    change: float = 1.0
    """Factor of the time of a round after one of another length."""
    dice: random.Random = field(default_factory=lambda: random.Random(0))
    latest: int = 0

    def cost(self, gamma):
        return 1 + gamma * (self.row + self.draft) + self.jump * (gamma > 0)

    def expected(self, gamma):
        return sum(self.acceptance**i for i in range(gamma + 1))

    def round(self, gamma):
        """One noisy round; now and then another process takes the machine."""
        accepted = 0
        while accepted < gamma and self.dice.random() < self.acceptance:
            accepted += 1
        slow = 4.0 if self.noise and self.dice.random() < 0.01 else 1.0
        slow *= self.change if gamma != self.latest else 1.0
        self.latest = gamma
        seconds = self.cost(gamma) * slow * self.dice.uniform(1 - self.noise, 1 + self.noise)
        share = gamma * self.draft / self.cost(gamma)
        drafting = seconds * share
        return Round([0] * (accepted + 1), gamma, gamma, accepted, drafting, seconds - drafting)

    def best(self):
        """Tokens per plain round's time at the best fixed length."""
        return max(self.expected(gamma) / self.cost(gamma) for gamma in range(MAX_AUTO_GAMMA + 1))

    def calibration(self, scale=0.2):
        """What was measured of it on another day, at another speed."""
        costs = {gamma: scale * self.cost(gamma) for gamma in range(MAX_AUTO_GAMMA + 1)}
        return lambda context: costs


class Answer:
    """An answer that is being decoded, from `context` positions on."""

    def __init__(self, length, context=100):
        self.length, self.context = length, context

    def choose(self, limit=50):
        return self.length.choose(limit, self.context)

    def observe(self, round_):
        self.context += len(round_.tokens)
        self.length.observe(round_)


def run(machine, tokens, length=None):
    """Decode an answer; the lengths drafted, and its true cost in plain rounds."""
    answer = Answer(length or AdaptiveDraftLength())
    chosen, left, cost = [], tokens, 0.0
    while left > 0:
        gamma = answer.choose(left - 1).gamma
        assert 0 <= gamma <= max(left - 1, 0)
        round_ = machine.round(gamma)
        answer.observe(round_)
        chosen.append(gamma)
        cost += machine.cost(gamma)
        left -= len(round_.tokens)
    return chosen, cost


def machine(verify, draft, acceptance, seed=0, **named):
    """Four rows cost `verify` times one."""
    return Machine((verify - 1) / 3, draft, acceptance, dice=random.Random(seed), **named)


WORLDS = [(v, d, a) for v in (1.1, 3.3) for d in (0.05, 0.6) for a in (0.9, 0.5, 0.05)]
WINNING = [world for world in WORLDS if machine(*world).best() > 1.001]
LOSING = [world for world in WORLDS if world not in WINNING]


def test_worlds_of_both_kinds_are_asked():
    assert len(WINNING) >= 4
    assert len(LOSING) >= 4


# Where drafting pays


@pytest.mark.parametrize("acceptance", [0.6, 0.8, 0.9])
def test_rounds_that_are_slow_after_another_length_do_not_hide_the_best_length(acceptance):
    """Measured on a CPU: such rounds take 1.2 to 1.6 times as long. It is calibrated without."""
    rates = []
    for seed in range(6):
        each = machine(1.2, 0.05, acceptance, seed, noise=0.15, change=1.5)
        length = AdaptiveDraftLength(each.calibration())
        chosen, cost = run(each, 1500, length)
        changes = sum(one != other for one, other in pairwise([0, *chosen]))
        rates.append(1500 / (cost + changes * (each.change - 1) * 1.3) / each.best())
    assert fmean(rates) > 0.93
    assert min(rates) > 0.88


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("world", WINNING)
def test_where_drafting_pays_it_comes_within_five_percent_of_the_best_length(world, calibrated):
    rates = []
    for seed in range(12):
        each = machine(*world, seed)
        length = AdaptiveDraftLength(each.calibration() if calibrated else uncalibrated)
        rates.append(2000 / run(each, 2000, length)[1] / each.best())
    assert fmean(rates) > 0.955
    assert min(rates) > 0.88


def test_a_good_draft_is_used_at_once():
    chosen, _ = run(machine(1.1, 0.05, 0.9), 60)
    assert max(chosen[:8]) >= 4
    assert sum(gamma == 0 for gamma in chosen) <= 4


def test_a_calibrated_length_is_drafted_at_once():
    each = machine(1.1, 0.05, 0.9)
    length = AdaptiveDraftLength(each.calibration(1.0))
    chosen, _ = run(each, 80, length)
    assert min(chosen[:8]) >= 6
    assert length.plain_reason() is None


def test_the_first_draft_risks_half_of_what_may_be_lost():
    """Each token costs 0.19: of a budget of 1.2 plain rounds, three drafted tokens risk 0.57."""
    length = AdaptiveDraftLength(lambda _: {0: 1.0, 8: 2.52})
    assert length.choose(50, 100).gamma == 3


def test_a_length_that_costs_less_than_calibrated_is_found():
    """Three tokens cost 1.15 plain rounds and not 1.35; six, whose cost is right, seem to win."""
    known = {0: 1.0, 1: 1.3, 2: 1.32, 3: 1.35, 4: 1.45, 5: 1.5, 6: 1.55, 7: 1.9, 8: 2.1}
    costs, each, chosen = known | {3: 1.15}, machine(1.1, 0.05, 0.75, seed=1, noise=0), []
    length = AdaptiveDraftLength(lambda _: known)
    answer = Answer(length)
    for _ in range(400):
        gamma = answer.choose().gamma
        round_ = each.round(gamma)
        answer.observe(replace(round_, draft_seconds=0.0, verify_seconds=costs[gamma]))
        chosen.append(gamma)
    assert chosen[:12].count(6) > 6
    assert chosen[-50:].count(3) > 40


@pytest.mark.parametrize("scale", [0.6, 1.5])
def test_a_machine_of_another_speed_than_calibrated_measures_a_plain_round(scale):
    each = machine(1.1, 0.05, 0.9, noise=0)
    length = AdaptiveDraftLength(each.calibration(scale))
    chosen, _ = run(each, 80, length)
    assert [bool(gamma) for gamma in chosen[:8]] == [True, False] + [True] * 6
    assert length.plain_reason() is None


def test_the_less_drafting_gains_the_sooner_plain_rounds_are_measured_again():
    def plain_share(acceptance):
        each = machine(1.2, 0.05, acceptance, noise=0)
        chosen, _ = run(each, 3000, AdaptiveDraftLength(each.calibration(1.0)))
        return sum(gamma == 0 for gamma in chosen) / len(chosen)

    assert 0.002 < plain_share(0.9) < 0.015 < plain_share(0.3) < 0.3


def test_a_dear_second_row_may_be_worth_it_with_a_long_draft():
    """One drafted token just loses, eight win: only trying longer ones shows it."""
    each = machine(1.05, 0.02, 0.8, jump=0.85)
    assert each.expected(1) / each.cost(1) < 1 < 1.5 < each.best()
    _, cost = run(each, 3000)
    assert 3000 / cost > 1.2


# Where drafting loses


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize(("tokens", "bound"), [(32, 1.05), (128, 1.02), (2000, 1.02)])
@pytest.mark.parametrize("world", LOSING)
def test_where_drafting_loses_an_answer_costs_hardly_more_than_plain(
    world, tokens, bound, calibrated
):
    for noise in (0.0, 0.05):
        costs = []
        for seed in range(4 if tokens < 2000 else 2):
            each = machine(*world, seed, noise=noise)
            length = AdaptiveDraftLength(each.calibration() if calibrated else uncalibrated)
            costs.append(run(each, tokens, length)[1] / tokens)
        assert fmean(costs) < bound
        assert max(costs) < bound + 0.2 * noise  # what is measured less well is bounded less well


@pytest.mark.parametrize(("tokens", "bound"), [(8, 1.05), (32, 1.05), (128, 1.02)])
@pytest.mark.parametrize("world", LOSING)
def test_where_drafting_loses_no_later_answer_costs_more(world, tokens, bound):
    """What a new answer may lose again is bounded as a session's first answer is."""
    each, costs = machine(*world, noise=0), []
    length = AdaptiveDraftLength(each.calibration())
    run(each, tokens, length)
    for _ in range(40):
        costs.append(run(each, tokens, length)[1] / tokens)
    assert fmean(costs) < bound


@pytest.mark.parametrize("world", LOSING)
def test_other_programs_rounds_do_not_make_a_losing_draft_look_fast(world):
    costs = []
    for seed in range(60):
        each = machine(*world, seed)
        costs.append(run(each, 128, AdaptiveDraftLength(each.calibration()))[1] / 128)
    assert max(costs) < 1.05


@pytest.mark.parametrize(("tokens", "bound"), [(32, 1.05), (128, 1.02), (1000, 1.02)])
def test_a_dear_second_row_is_seen_from_one_draft(tokens, bound):
    """On some chips any second row doubles the cost."""
    assert run(machine(1.2, 0.3, 0.4, jump=1.0), tokens)[1] < bound * tokens


def test_a_calibrated_machine_that_cannot_win_is_left_alone_and_the_reason_given():
    each = machine(3.3, 0.6, 0.9, noise=0)
    length = AdaptiveDraftLength(each.calibration())
    assert run(each, 8, length)[0] == [0] * 8
    assert f"cost {each.cost(1):.2f} plain rounds" in length.plain_reason()


def test_a_loss_is_stopped_however_wrong_the_estimates():
    """Drafting that costs ten plain rounds from the tenth round on is charged and given up."""
    each, length, lost = machine(1.1, 0.05, 0.9, noise=0), AdaptiveDraftLength(), 0.0
    answer = Answer(length)
    for turn in range(500):
        gamma = answer.choose().gamma
        bad = turn >= 10 and gamma > 0
        round_ = Round([0], gamma, gamma, 0, 0.0, 10.0) if bad else each.round(gamma)
        lost += 9 if bad else 0
        answer.observe(round_)
    assert lost < 9 * 9


# What changes


def test_a_longer_context_changes_the_length_at_once():
    """Verifying eight rows costs little at 100 positions and eight times a row at 5,000."""
    cheap, dear = machine(1.1, 0.05, 0.9, noise=0), machine(4.0, 0.05, 0.9, noise=0)
    curves = {context: each.calibration(1.0)(0) for context, each in ((100, cheap), (5000, dear))}
    length = AdaptiveDraftLength(partial(at_context, curves))
    run(cheap, 200, length)
    assert length.choose(50, 100).gamma >= 6
    assert length.choose(50, 5000).gamma <= 1
    assert 0 < length.choose(50, 1000).gamma < 8


def switching(first, second, tokens=1500):
    length = AdaptiveDraftLength()
    run(first, tokens, length)
    return run(second, tokens, length)


def test_when_acceptance_falls_it_turns_to_plain_decoding():
    chosen, cost = switching(machine(1.1, 0.6, 0.9), machine(1.1, 0.6, 0.05, seed=1))
    assert sum(gamma > 0 for gamma in chosen) < 50
    assert cost < 1.03 * 1500


@pytest.mark.parametrize(("verify", "draft"), [(1.1, 0.05), (2.0, 0.2)])
def test_when_acceptance_rises_it_drafts_again(verify, draft):
    rates = []
    for seed in range(8):
        each = machine(verify, draft, 0.9, seed)
        chosen, cost = switching(machine(verify, draft, 0.05, seed), each)
        assert max(chosen[-20:]) >= 2
        rates.append(1500 / cost / each.best())
    assert fmean(rates) > 0.94
    assert min(rates) > 0.85


def test_an_easy_answer_after_hard_ones_is_drafted():
    """Eight hard answers leave no time to lose for trials; the easy one may lose some again."""
    rates = []
    for seed in range(8):
        hard, easy = machine(1.3, 0.1, 0.1, seed), machine(1.3, 0.1, 0.9, seed)
        length = AdaptiveDraftLength(hard.calibration(1.0))
        for _ in range(8):
            run(hard, 32, length)
        rates.append(32 / run(easy, 32, length)[1])
    assert fmean(rates) > 1.7


def test_a_calibrated_machine_that_has_become_slow_is_found_out():
    for seed in range(4):
        each = machine(3.3, 0.6, 0.9, seed)
        length = AdaptiveDraftLength(machine(1.1, 0.05, 0.9).calibration(1.0))
        assert run(each, 1000, length)[1] < 1.05 * 1000
        assert run(each, 3000, length)[1] < 1.02 * 3000
        assert length.plain_reason()


def test_a_calibrated_machine_that_has_become_fast_is_found_out():
    rates = []
    for seed in range(8):
        each = machine(1.1, 0.05, 0.9, seed)
        length = AdaptiveDraftLength(machine(3.3, 0.6, 0.9).calibration(1.0))
        rates.append(3000 / run(each, 3000, length)[1] / each.best())
    assert fmean(rates) > 0.83
    assert min(rates) > 0.75


def test_one_slow_first_draft_is_no_reason_to_decode_plainly():
    """Another program may run in the first drafted round."""

    class SlowFirst(Machine):
        drafts = 0

        def round(self, gamma):
            self.drafts += gamma > 0
            usual = super().round(gamma)
            slow = 4.0 if self.drafts == 1 and gamma else 1.0
            return replace(usual, verify_seconds=slow * usual.verify_seconds)

    rates = []
    for seed in range(16):
        each = SlowFirst(0.54, 0.05, 0.95, noise=0.0, dice=random.Random(seed))
        length = AdaptiveDraftLength(each.calibration(1.0))
        rates.append(512 / run(each, 512, length)[1] / each.best())
    assert fmean(rates) > 0.91
    assert min(rates) > 0.84


@pytest.mark.parametrize("costs", [{5: 7.0}, {5: 15.0}, {5: 33.0}, {2: 9.0, 8: 60.0}])
def test_costs_that_a_busy_moment_made_are_outlived(costs):
    for seed in range(4):
        each, length = (
            machine(1.1, 0.05, 0.9, seed),
            AdaptiveDraftLength(lambda _: {0: 1.0} | costs),
        )
        chosen, cost = run(each, 3000, length)
        assert 3000 / cost > 0.5 * each.best()
        assert fmean(chosen[-50:]) > 4.5


# Rounds that say less


def test_a_first_round_that_warms_up_does_not_decide():
    """The first round of a length may compile kernels and take as long as a hundred others."""
    each, length, lengths = machine(1.1, 0.05, 0.9), AdaptiveDraftLength(), set()
    chosen = []
    answer = Answer(length)
    for _ in range(100):
        gamma = answer.choose(100).gamma
        round_ = each.round(gamma)
        if gamma not in lengths:
            round_ = replace(round_, draft_seconds=0.0, verify_seconds=100.0)
        lengths.add(gamma)
        answer.observe(round_)
        chosen.append(gamma)
    assert fmean(chosen[-50:]) > 4


def test_a_draft_that_finds_nothing_counts_as_plain():
    """A lookup that finds nothing costs a plain round, and is asked again."""
    each, length = machine(1.1, 0.01, 0.8), AdaptiveDraftLength()
    chosen = []
    answer = Answer(length)
    for turn in range(300):
        gamma = answer.choose().gamma
        chosen.append(gamma)
        answer.observe(each.round(gamma if turn % 5 == 0 else 0))
    assert fmean(gamma > 0 for gamma in chosen[100:]) > 0.9


def test_a_draft_that_first_catches_up_does_not_make_drafting_look_dear():
    """After plain rounds a draft is fed what it missed: these rounds cost half as much again."""
    each, length = machine(1.1, 0.05, 0.9), AdaptiveDraftLength()
    run(machine(1.1, 0.05, 0.05), 300, length)
    plain, chosen = 9, []
    answer = Answer(length)
    for _ in range(300):
        gamma = answer.choose().gamma
        round_ = each.round(gamma)
        late = 0.5 if gamma and plain > 4 else 0.0
        answer.observe(replace(round_, draft_seconds=late))
        plain = 0 if gamma else plain + 1
        chosen.append(gamma)
    assert fmean(chosen[-50:]) > 5


def test_tokens_after_the_end_of_an_answer_count_as_rejected():
    """Answers of three tokens: two drafted ones are enough, however good the draft is."""
    length = AdaptiveDraftLength(lambda _: {0: 1.0, 8: 2.0})
    answer = Answer(length)
    for _ in range(100):
        gamma = answer.choose().gamma
        accepted = min(gamma, 3)
        tokens = accepted + (accepted < 3)
        answer.observe(Round([0] * tokens, gamma, gamma, accepted, 0.0, 1.0 + gamma / 8))
    assert answer.choose().gamma == 2


def test_the_verdict_says_what_a_round_gives_and_costs():
    length = AdaptiveDraftLength()
    assert length.plain_reason() is None
    each = machine(3.3, 0.6, 0.05, noise=0)
    run(each, 1000, length)
    words = length.plain_reason().split()
    assert "plainly," in words
    assert float(words[words.index("tokens") - 1]) == pytest.approx(1.2, abs=0.2)
    assert float(words[words.index("plain") - 1]) == pytest.approx(each.cost(1), abs=0.01)
    run(machine(1.1, 0.05, 0.9), 1000, length)
    assert length.plain_reason() is None


def test_fixed_lengths_end_with_the_budget():
    assert [FixedDraftLength(4).choose(limit, 100).gamma for limit in (9, 4, 2, 0)] == [4, 4, 2, 0]


# Trees


def trees(each, level=0.05):
    """Calibrated costs of trees on a machine, by their nodes."""

    def costs(nodes):
        levels = {depth: 1 + nodes * each.row + depth * level for depth in range(1, 9)}
        return lambda context: {0: 1.0} | levels

    return {nodes: costs(nodes) for nodes in (8, 60)}


SECOND = 0.4
"""Probability that the next token is right if all that are ranked higher are wrong."""


def tree_round(plan, acceptance, dice, seconds):
    """A round of a tree, or of a chain, whose right tokens have random ranks."""
    tree = plan.nodes > plan.gamma
    paths = surest_paths(acceptance, plan.nodes, plan.gamma) if tree else []
    paths = {path for _, path in paths} or {(0,) * length for length in range(1, plan.gamma + 1)}
    right = []
    while (*right, rank := drawn_rank(acceptance, dice)) in paths:
        right.append(rank)
    first = next((place for place, rank in enumerate(right) if rank), len(right))
    judged = first + (first < len(right) or (0,) * (first + 1) in paths)
    return Round(
        [0] * (len(right) + 1),
        *(plan.nodes if tree else plan.gamma, plan.gamma, len(right), 0.0, seconds),
        first_choices=FirstChoices(first, judged),
    )


def drawn_rank(acceptance, dice):
    rank = 0
    while dice.random() > (SECOND if rank else acceptance):
        rank += 1
    return rank


@pytest.mark.parametrize(("four", "nodes"), [(1.0, 60), (1.05, 8), (1.5, 5), (3.3, 0)])
def test_a_tree_is_chosen_only_where_rows_cost_little(four, nodes):
    """Of four tokens two are accepted: at four rows for 1.5 a chain of 2 or 3 is best."""
    each = machine(four, 0.05, 0.5, noise=0)
    length = AdaptiveDraftLength(each.calibration(1.0), trees(each))
    drafted = []
    answer = Answer(length)
    for _ in range(60):
        plan = answer.choose()
        drafted.append(plan.nodes if plan.gamma else 0)
        tree = plan.nodes > plan.gamma
        seconds = trees(each)[plan.nodes](0)[plan.gamma] if tree else each.cost(plan.gamma)
        answer.observe(tree_round(plan, each.acceptance, each.dice, seconds))
    usual = sorted(drafted)[30]
    assert usual == nodes if nodes != 5 else 0 < usual <= 5
    assert nodes > 8 or max(drafted) <= 8


def test_chains_are_told_to_the_drafter_as_chains():
    """A drafter that was opened with a tree drafts a chain if it may have gamma nodes."""
    each = machine(1.1, 0.05, 0.9, noise=0)
    gamma, nodes = AdaptiveDraftLength(each.calibration(1.0), {}).choose(50, 100)
    assert gamma == nodes > 4
    assert AdaptiveDraftLength(each.calibration(1.0)).choose(50, 100) == (gamma, None)


def test_what_a_tree_accepts_teaches_about_chains():
    """A machine on which trees cost nothing until chains do: what is known goes over."""
    each = machine(1.0, 0.05, 0.5, noise=0)
    length = AdaptiveDraftLength(each.calibration(1.0), trees(each))
    answer, dice = Answer(length), random.Random(0)
    for _ in range(300):
        plan = answer.choose()
        answer.observe(tree_round(plan, 0.3, dice, 1.0 + 0.05 * plan.gamma))
    gamma, nodes = plan
    assert nodes == 60
    assert gamma <= 4
    assert length._acceptance.mean == pytest.approx(0.3, abs=0.12)
