"""Draft lengths chosen from measured rounds, on simulated machines and clocks."""

import random
from dataclasses import dataclass, field

import pytest

from mmspec.estimates import LONGEST
from mmspec.lengths import ALLOWANCE, AutoLength, FixedLength
from mmspec.statistics import Round


@dataclass
class Machine:
    """Verifies r rows in 1 + (r - 1) * row steps; a drafted token takes `draft` steps."""

    row: float
    draft: float
    acceptance: float
    jump: float = 0.0
    """Added as soon as there is more than one row."""
    noise: float = 0.05
    dice: random.Random = field(default_factory=lambda: random.Random(0))

    def cost(self, k):
        return 1 + k * (self.row + self.draft) + self.jump * (k > 0)

    def expected(self, k):
        return sum(self.acceptance**i for i in range(k + 1))

    def round(self, k):
        """One noisy round; now and then another process takes the machine."""
        accepted = 0
        while accepted < k and self.dice.random() < self.acceptance:
            accepted += 1
        slow = 4 if self.dice.random() < 0.01 else 1
        seconds = self.cost(k) * slow * self.dice.uniform(1 - self.noise, 1 + self.noise)
        share = k * self.draft / self.cost(k)
        return Round([0] * (accepted + 1), k, accepted, seconds * share, seconds * (1 - share))

    def best(self):
        """Tokens per step of the best fixed length."""
        return max(self.expected(k) / self.cost(k) for k in range(LONGEST + 1))


def run(machine, tokens, lengths=None):
    """Decode; the lengths drafted, and the true cost of the run in plain steps."""
    lengths = lengths or AutoLength()
    chosen, left, steps = [], tokens, 0.0
    while left > 0:
        k = lengths.choose(left - 1)
        assert 0 <= k <= max(left - 1, 0)
        round_ = machine.round(k)
        lengths.observe(round_)
        chosen.append(k)
        steps += machine.cost(k)
        left -= len(round_.tokens)
    return chosen, steps


def machine(verify, draft, acceptance, seed=0, **named):
    """Four rows cost `verify` times one."""
    return Machine((verify - 1) / 3, draft, acceptance, dice=random.Random(seed), **named)


WORLDS = [(v, d, a) for v in (1.1, 3.3) for d in (0.05, 0.6) for a in (0.9, 0.5, 0.05)]
WINNING = [world for world in WORLDS if machine(*world).best() > 1.001]
LOSING = [world for world in WORLDS if world not in WINNING]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


@pytest.mark.parametrize("world", WINNING)
def test_where_drafting_pays_it_comes_near_the_best_fixed_length(world):
    machines = [machine(*world, seed) for seed in range(4)]
    runs = [(run(each, 2000)[1], each.best()) for each in machines]
    assert mean(2000 / steps / best for steps, best in runs) > 0.95
    assert min(2000 / steps / best for steps, best in runs) > 0.92


@pytest.mark.parametrize("tokens", [128, 1000, 5000])
@pytest.mark.parametrize("world", LOSING)
def test_where_drafting_loses_it_ends_within_three_percent_of_plain(world, tokens):
    for seed in range(6):
        assert run(machine(*world, seed), tokens)[1] < 1.03 * tokens


def test_worlds_of_both_kinds_are_asked():
    assert len(WINNING) >= 4
    assert len(LOSING) >= 4


@pytest.mark.parametrize("tokens", [128, 1000])
def test_a_dear_second_row_is_seen_from_one_draft(tokens):
    """On some chips any second row doubles the step."""
    assert run(machine(1.2, 0.3, 0.4, jump=1.0), tokens)[1] < 1.03 * tokens


def test_a_dear_second_row_may_be_worth_it_with_a_long_draft():
    """One drafted token just loses, eight win: only trying longer ones shows it."""
    each = machine(1.05, 0.02, 0.8, jump=0.85)
    assert each.expected(1) / each.cost(1) < 1 < 1.5 < each.best()
    _, steps = run(each, 3000)
    assert 3000 / steps > 0.9 * each.best()


def test_a_good_draft_is_used_at_once():
    chosen, _ = run(machine(1.1, 0.05, 0.9), 60)
    assert max(chosen[:8]) >= 4
    assert sum(k == 0 for k in chosen) <= 4


def switching(first, second, tokens=1500):
    lengths = AutoLength()
    run(first, tokens, lengths)
    return run(second, tokens, lengths)


def test_when_acceptance_falls_it_turns_to_plain_decoding():
    chosen, steps = switching(machine(1.1, 0.6, 0.9), machine(1.1, 0.6, 0.05, seed=1))
    assert sum(k > 0 for k in chosen) < 40
    assert steps < 1.04 * 1500


def test_when_acceptance_rises_it_drafts_again():
    each = machine(1.1, 0.05, 0.9, seed=1)
    chosen, steps = switching(machine(1.1, 0.05, 0.05), each)
    assert max(chosen[-20:]) >= 4
    assert 1500 / steps > 0.6 * each.best()


def test_a_first_round_that_warms_up_does_not_decide():
    """The first round of a length may compile kernels and take a hundred steps."""
    each, lengths, seen = machine(1.1, 0.05, 0.9), AutoLength(), set()
    chosen = []
    for _ in range(400):
        k = lengths.choose(100)
        round_ = each.round(k)
        if k not in seen:
            round_ = Round(round_.tokens, k, round_.accepted, 0.0, 100.0)
        seen.add(k)
        lengths.observe(round_)
        chosen.append(k)
    assert mean(chosen[-50:]) > 4


def test_what_is_asked_and_not_drafted_counts_as_plain():
    """A lookup that finds nothing costs a plain round, and is asked again."""
    each, lengths = machine(1.1, 0.01, 0.8), AutoLength()
    chosen = []
    for turn in range(600):
        k = lengths.choose(50)
        chosen.append(k)
        lengths.observe(each.round(k if turn % 5 == 0 else 0))
    assert mean(k > 0 for k in chosen[100:]) > 0.9


def test_an_answer_that_ends_in_a_kept_token_was_not_rejected_there():
    lengths = AutoLength()
    for _ in range(2):
        lengths.observe(Round([1], 0, 0, 0.0, 1.0))
    for _ in range(50):
        lengths.observe(Round([1, 1], 4, 2, 0.1, 1.0))
    assert lengths.verdict() is None
    assert lengths._acceptance.expected()[2] > 2.5


def test_the_verdict_says_what_a_round_gives_and_costs():
    lengths = AutoLength()
    assert lengths.verdict() is None
    each = machine(3.3, 0.6, 0.05, noise=0)
    run(each, 1000, lengths)
    words = lengths.verdict().split()
    assert "plainly," in words
    assert float(words[words.index("tokens") - 1]) == pytest.approx(1.05, abs=0.1)
    assert float(words[words.index("plain") - 1]) == pytest.approx(each.cost(1), abs=0.01)
    run(machine(1.1, 0.05, 0.9), 1000, lengths)
    assert lengths.verdict() is None


def test_fixed_lengths_end_with_the_budget():
    assert [FixedLength(4).choose(limit) for limit in (9, 4, 2, 0)] == [4, 4, 2, 0]


def test_a_loss_is_stopped_however_wrong_the_estimates():
    """Drafting that costs ten steps from the tenth round on is charged and given up."""
    each, lengths, lost = machine(1.1, 0.05, 0.9, noise=0), AutoLength(), 0.0
    for turn in range(500):
        k = lengths.choose(50)
        bad = turn >= 10 and k > 0
        round_ = Round([0], k, 0, 0.0, 10.0) if bad else each.round(k)
        lost += 9 if bad else 0
        lengths.observe(round_)
    assert lost < 9 * (ALLOWANCE + 8)


# Costs known from before


def known(each, scale=1.0):
    """What a calibration says of a machine, at another speed than today's."""
    return {k: scale * each.cost(k) for k in range(LONGEST + 1)}


def curve(verify, draft=0.05, acceptance=0.9, seed=0, **named):
    """A machine whose four rows cost `verify` plain steps, and lengths that know so."""
    each = machine(verify, draft, acceptance, seed, **named)
    return each, AutoLength(known(each, 0.2))


def test_a_flat_curve_that_is_known_is_drafted_on_at_once():
    each, lengths = curve(1.1)
    chosen, _ = run(each, 80, lengths)
    assert chosen[:2] == [0, 0]
    assert chosen[2] >= 3
    assert max(chosen[:8]) >= 6
    assert lengths.verdict() is None


def test_a_steep_curve_that_is_known_is_not_even_tried_at_first():
    each, lengths = curve(3.3, 0.6, noise=0)
    chosen, _ = run(each, 8, lengths)
    assert chosen == [0] * 8
    assert f"cost {each.cost(1):.2f} plain steps" in lengths.verdict()


def test_a_draft_dearer_than_the_target_is_believed_to_be():
    each, lengths = curve(1.1, 3.0)
    assert run(each, 128, lengths)[1] < 1.001 * 128


@pytest.mark.parametrize("world", WINNING)
def test_a_known_machine_comes_as_near_the_best_length(world):
    pairs = [curve(*world, seed) for seed in range(4)]
    runs = [(run(each, 2000, lengths)[1], each.best()) for each, lengths in pairs]
    assert min(2000 / steps / best for steps, best in runs) > 0.92


@pytest.mark.parametrize("tokens", [128, 1000])
@pytest.mark.parametrize("world", LOSING)
def test_a_known_machine_loses_no_more(world, tokens):
    for seed in range(6):
        each, lengths = curve(*world, seed)
        assert run(each, tokens, lengths)[1] < 1.03 * tokens


def test_a_curve_that_has_become_steep_is_found_out_and_said():
    for seed in range(4):
        each, lengths = machine(3.3, 0.6, 0.9, seed), AutoLength(known(machine(1.1, 0.05, 0.9)))
        assert run(each, 1000, lengths)[1] < 1.06 * 1000
        assert lengths.verdict()


def test_a_curve_that_has_become_flat_is_found_out():
    for seed in range(4):
        each = machine(1.1, 0.05, 0.9, seed)
        _, steps = run(each, 3000, AutoLength(known(machine(3.3, 0.6, 0.9))))
        assert 3000 / steps > 0.9 * each.best()


@pytest.mark.parametrize("told", [{5: 7.0}, {5: 15.0}, {5: 33.0}, {2: 9.0, 8: 60.0}])
def test_costs_that_a_busy_moment_made_are_found_out(told):
    for seed in range(4):
        each = machine(1.1, 0.05, 0.9, seed)
        _, steps = run(each, 3000, AutoLength({0: 1.0} | told))
        assert 3000 / steps > 0.8 * each.best()


def test_what_was_measured_is_told_of_lengths_seen_twice():
    lengths = AutoLength()
    for k, seconds in ((0, 9.0), (0, 1.0), (1, 3.0), (2, 2.0), (2, 4.0)):
        lengths.observe(Round([1], k, 0, 0.0, seconds))
    assert lengths.measured == {0: 1.0, 2: 2.0}


def test_what_was_known_is_still_told_where_nothing_has_shown_otherwise():
    lengths = AutoLength({0: 2.0, 4: 3.0, 8: 4.0})
    for k, seconds in ((0, 9.0), (0, 1.0), (4, 1.5)):
        lengths.observe(Round([1], k, 0, 0.0, seconds))
    assert lengths.measured == {0: 1.0, 4: 1.5, 8: 2.0}
