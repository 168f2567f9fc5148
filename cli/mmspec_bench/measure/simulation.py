"""Simulates answers with adaptive and fixed draft lengths on machines of known costs.

Every answer is decoded by the real loop and a new session's draft length, with a clock that moves
by what forwards cost. Costs are in multiples of decoding the same answer plainly.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from statistics import fmean
from typing import Any

from mmspec.decoding.draft import Plan
from mmspec.decoding.loop import DraftLengthPolicy, decode
from mmspec.decoding.statistics import Round
from mmspec.draft_length.acceptance import MAX_AUTO_GAMMA
from mmspec.draft_length.calibration_file import TREE_NODES, Calibration
from mmspec.draft_length.policy import AdaptiveDraftLength
from mmspec_bench import Progress
from mmspec_bench.measure.simulated_machine import (
    Clock,
    Machine,
    OnlyBranch,
    SimulatedDrafter,
    SimulatedTarget,
)

TOKEN = {64: 0.05}
"""Cost of a drafted token: that of a head, in plain rounds."""
MACHINES = (
    Machine("M4 Pro, 4 bits", {64: {1: 1.0, 4: 1.43, 8: 2.84}}, TOKEN),
    Machine("M3 Ultra, 4 bits", {64: {1: 1.0, 4: 3.26, 8: 6.12}}, TOKEN),
    Machine("flat", {64: {1: 1.0, 8: 1.0}}, TOKEN),
    Machine(
        "flat, then steep",
        {64: {1: 1.0, 8: 1.5}, 8192: {1: 5.0, 8: 29.0}},
        {64: 0.05, 8192: 0.25},
    ),
)
"""Two Macs (mlx issues 3852 and 4265), a machine on which rows cost nothing, and one on which they
cost little after a short context and much after a long one."""
ACCEPTANCES = (0.2, 0.5, 0.8, 0.95)
"""Probabilities that a drafted token is right if all before it are."""
TOKENS = (32, 128, 512)
"""Lengths of answers."""
TREE_GAMMAS = (3, 5, 8)
"""Levels of the fixed trees."""
PROMPTS = (64, 700, 2500, 6000)
"""Lengths of prompts, one for each answer in turn."""
FASTER = 0.05
"""Most by which calibrated decoding may exceed the best fixed choice, as a share."""

FIXED = (
    {"plain": Plan(0)}
    | {f"gamma {gamma}": Plan(gamma, gamma) for gamma in range(1, MAX_AUTO_GAMMA + 1)}
    | {f"tree {n}, gamma {gamma}": Plan(gamma, n) for n in TREE_NODES for gamma in TREE_GAMMAS}
)
"""The fixed choices that `--gamma auto` is compared with."""

MakePolicy = Callable[[], DraftLengthPolicy]


def slowest(tokens: int) -> float:
    """The most that an answer of `tokens` tokens may cost, in multiples of plain decoding."""
    return 1.02 if tokens >= 128 else 1.05


@dataclass(frozen=True, slots=True)
class Fixed:
    """Implements `mmspec.decoding.loop.DraftLengthPolicy`: one plan in every round."""

    plan: Plan

    def choose(self, max_gamma: int, context: int) -> Plan:  # noqa: ARG002
        """The plan, or a shorter one at the end of the answer."""
        gamma, nodes = self.plan
        chain = nodes is None or nodes <= gamma
        return Plan(min(gamma, max_gamma), min(gamma, max_gamma) if chain else nodes)

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
        """True if either exceeds what plain decoding allows."""
        return max(self.auto, self.calibrated) > slowest(self.tokens)

    @property
    def misses_best(self) -> bool:
        """True if calibrated decoding is over 5 % behind the best fixed choice."""
        return self.calibrated > (1 + FASTER) * self.best


@dataclass(frozen=True, slots=True)
class Simulation:
    """All cells, and how many answers of 512 tokens each is the mean of."""

    runs: int
    cells: Sequence[Cell]

    @property
    def slower(self) -> list[Cell]:
        """Cells in which decoding is slower than allowed."""
        return [cell for cell in self.cells if cell.is_slower]

    @property
    def misses(self) -> list[Cell]:
        """Cells in which calibrated decoding is over 5 % behind the best fixed choice."""
        return [cell for cell in self.cells if cell.misses_best]

    def as_dict(self) -> dict[str, Any]:
        """The simulation as a JSON-serializable object."""
        return asdict(self)


def simulate(
    runs: int,
    progress: Progress,
    machines: Sequence[Machine] = MACHINES,
    acceptances: Sequence[float] = ACCEPTANCES,
    tokens: Sequence[int] = TOKENS,
) -> Simulation:
    """Simulate every cell; one of n tokens is the mean of runs x 512 / n answers."""
    cells = []
    for machine, acceptance, length in product(machines, acceptances, tokens):
        progress(f"{machine.name}, acceptance {acceptance}, {length} tokens")
        cells.append(cell(machine, acceptance, length, runs * max(TOKENS) // length))
    return Simulation(runs, cells)


def cell(machine: Machine, acceptance: float, tokens: int, answers: int) -> Cell:
    """Simulate one cell, with the same texts for every choice."""

    def cost(make: MakePolicy) -> float:
        seeds = range(answers)
        return fmean(answer_cost(machine, acceptance, tokens, make(), seed) for seed in seeds)

    costs = {name: cost(partial(Fixed, plan)) for name, plan in FIXED.items()}
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
    """The cost of one answer of `tokens` tokens."""
    clock, prompt = Clock(seed), PROMPTS[seed % len(PROMPTS)]
    target = SimulatedTarget(machine, clock, prompt)
    drafter = SimulatedDrafter(machine, clock, prompt, acceptance, seed)
    rounds = decode(
        target, drafter, OnlyBranch(), draft_length=policy, max_tokens=tokens, clock=clock
    )
    for _ in rounds:
        pass
    return clock.cost
