"""Draft lengths against the best fixed choice, on simulated machines and on recorded texts."""

import csv
import json
import random
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

import pytest
from simulate import ACCEPTANCES, TOKENS, Fixed, simulated

from mmspec.decoding.draft import Plan
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.cost_curves import line
from mmspec.draft_length.policy import AdaptiveDraftLength
from mmspec.draft_length.rank_model import surest_paths
from support.simulated_machine import MACHINES

TABLE = Path(__file__).parents[2] / "docs" / "results" / "simulated.csv"
SUPPORT = Path(__file__).parents[1] / "support"


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
