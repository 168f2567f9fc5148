"""Decodes answers with adaptive and fixed draft lengths on simulated machines.

    python tests/simulate.py --runs 20 > docs/results/simulated.csv

Every answer is decoded by the real loop and a new session's draft length. Costs are in multiples of
decoding the same answer plainly.
"""

from argparse import ArgumentParser
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from itertools import groupby, product
from statistics import fmean

import click

from mmspec.chat.session import MeasuredRounds
from mmspec.decoding.draft import Plan
from mmspec.decoding.loop import DraftLengthPolicy, decode
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.calibration_file import TREE_NODES, Calibration
from mmspec.draft_length.policy import AdaptiveDraftLength
from support.simulated_machine import MACHINES, Clock, Machine, SimulatedDrafter, SimulatedTarget

ACCEPTANCES = (0.2, 0.5, 0.8, 0.95)
"""Probabilities that a drafted token is right if all before it are."""
TOKENS = (32, 128, 512)
"""Lengths of answers."""
PROMPTS = (64, 700, 2500, 6000)
"""Lengths of prompts, one for each answer in turn."""
TREE_GAMMAS = (3, 5, 8)
"""Levels of the fixed trees."""
FIXED = (
    {"plain": Plan(0)}
    | {f"gamma {gamma}": Plan(gamma, gamma) for gamma in range(1, MAX_AUTO_GAMMA + 1)}
    | {f"tree {n}, gamma {gamma}": Plan(gamma, n) for n in TREE_NODES for gamma in TREE_GAMMAS}
)
"""The fixed choices that `--gamma auto` is compared with."""

MakePolicy = Callable[[], DraftLengthPolicy]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A draft length that plans the same in every round."""

    plan: Plan

    def choose(self, max_gamma: int, context: int) -> Plan:
        """The plan, or a shorter one at the end of the answer."""
        return self.plan.within(max_gamma)

    def observe(self, round_: Round) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Mean costs of answers on one machine, at one acceptance and length."""

    machine: str
    acceptance: float
    tokens: int
    choice: str
    """The best fixed choice."""
    best: float
    """Its cost."""
    auto: float
    """Cost with `--gamma auto` that measures the costs of chains while decoding."""
    calibrated: float
    """Cost with `--gamma auto` that starts from calibrated costs of chains and trees."""

    @property
    def is_slower(self) -> bool:
        """True if either is slower than plain decoding by more than is allowed."""
        return max(self.auto, self.calibrated) > (1.02 if self.tokens >= 128 else 1.03)

    @property
    def misses_best(self) -> bool:
        """True if calibrated decoding is over 5 % behind the best fixed choice."""
        return self.calibrated > 1.05 * self.best


def simulated(
    machine: Machine, acceptance: float, tokens: int, runs: int, choices: Collection[str] = FIXED
) -> Cell:
    """Decode `runs` answers of 512 tokens or more shorter ones, the same texts for every choice.

    choices: the fixed ones to compare with, plain decoding among them.
    """
    answers = range(runs * max(TOKENS) // tokens)

    def cost(make: MakePolicy) -> float:
        return fmean(answer_cost(machine, acceptance, tokens, make(), seed) for seed in answers)

    costs = {name: cost(partial(Fixed, FIXED[name])) for name in choices}
    best, plain = min(costs, key=lambda name: costs[name]), costs["plain"]
    auto = cost(partial(AdaptiveDraftLength, trees={})) / plain
    calibrated = cost(calibrated_policy(machine.calibration())) / plain
    return Cell(machine.name, acceptance, tokens, best, costs[best] / plain, auto, calibrated)


def calibrated_policy(calibration: Calibration) -> MakePolicy:
    """The adaptive draft length of a session with a calibration, for one branch."""
    trees = {nodes: partial(calibration.tree_costs, nodes, 1) for nodes in TREE_NODES}
    return partial(AdaptiveDraftLength, partial(calibration.round_costs, 1), trees)


def answer_cost(
    machine: Machine, acceptance: float, tokens: int, policy: DraftLengthPolicy, seed: int
) -> float:
    """The cost of one answer of `tokens` tokens, in plain rounds at the shortest context."""
    clock, prompt = Clock(seed), PROMPTS[seed % len(PROMPTS)]
    target = SimulatedTarget(machine, clock, prompt)
    drafter = SimulatedDrafter(machine, clock, prompt, acceptance, seed)
    measured = MeasuredRounds(target, policy, clock=clock)
    for _ in decode(measured, drafter, measured, max_tokens=tokens):
        pass
    return clock.cost


def main(runs: int) -> None:
    """Print the table of all cells, then those in which decoding is too slow."""
    cells = [simulated(*which, runs) for which in product(MACHINES, ACCEPTANCES, TOKENS)]
    click.echo(f"machine,acceptance,{','.join(f'{number} tokens' for number in TOKENS)}")
    for (name, acceptance), row in groupby(cells, lambda cell: (cell.machine, cell.acceptance)):
        click.echo(f'"{name}",{acceptance},{",".join(map(_text, row))}')
    for cell in cells:
        where = f"{cell.machine}, {cell.acceptance}, {cell.tokens} tokens"
        if cell.is_slower:
            click.echo(f"slower than allowed: {where}", err=True)
        if cell.misses_best:
            click.echo(f"over 5 % behind the best fixed choice: {where}", err=True)


def _text(cell: Cell) -> str:
    costs = (f"{100 * cost:.1f}" for cost in (cell.best, cell.auto, cell.calibrated))
    return f'"{cell.choice}: {", ".join(costs)}"'


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="answers of 512 tokens in each mean")
    main(parser.parse_args().runs)
