"""A target, a drafter and a clock without models: rounds cost what a curve says.

The loop and the draft lengths are the real ones; only the forwards are simulated.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.draft import Draft, Plan
from mmspec.decoding.noise import Noise
from mmspec.decoding.tree import WIDTH, Tree
from mmspec.decoding.tree_estimates import Path, surest_paths
from mmspec.draft_length.calibration_file import CONTEXTS, ROWS, Calibration, Curves, at_context

WRONG = -1
"""The first of the drafted tokens that are not the target's; the others are below."""
SECOND = 0.4
"""Probability that the draft's next token is right if all that it ranks higher are wrong.

Not the one that the draft length presumes.
"""
LEVEL = 1.6
"""Cost of a level of a tree of the default width, in drafted tokens of a chain."""
JITTER = 0.05
"""Most by which the measured time of a forward differs from its cost, as a share."""
DISTURBED, SLOWDOWN = 0.01, 4.0
"""Share of forwards that another program slows down, and how many times longer they take."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What forwards cost on a machine, in plain rounds at the shortest context."""

    name: str
    target: Curves
    """Cost of a verification by context and number of rows; lines between and beyond them."""
    draft: Mapping[int, float]
    """Cost of a drafted token by context."""

    def verification(self, rows: int, context: int) -> float:
        """Cost of a target forward over `rows` rows."""
        costs = at_context(self.target, context)
        known = sorted(costs)
        above = next((place for place, number in enumerate(known) if number >= rows), len(known))
        low, high = known[max(min(above, len(known) - 1) - 1, 0) :][:2]
        return costs[low] + (costs[high] - costs[low]) * (rows - low) / (high - low)

    def drafted_token(self, context: int) -> float:
        """Cost of one token of a chain."""
        return at_context({at: {1: cost} for at, cost in self.draft.items()}, context)[1]

    def drafted_level(self, width: int, context: int) -> float:
        """Cost of one level of a dynamic tree."""
        return self.drafted_token(context) * (1 + (LEVEL - 1) * (width - 1) / (WIDTH - 1))

    def calibration(self) -> Calibration:
        """What `mmspec calibrate` would measure here."""
        target = {at: {number: self.verification(number, at) for number in ROWS} for at in CONTEXTS}
        tokens = {at: {1: self.drafted_token(at)} for at in CONTEXTS}
        return Calibration(
            target, tokens, {at: {1: self.drafted_level(WIDTH, at)} for at in CONTEXTS}
        )


class Clock:
    """Counts true costs, and shows a session noisy ones."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._shown = 0.0
        self.cost = 0.0
        """Cost of all forwards so far, without noise."""

    def __call__(self) -> float:
        """Seconds, as a session measures them."""
        return self._shown

    def spend(self, cost: float) -> None:
        """Add the cost of a forward."""
        slow = SLOWDOWN if self._dice.random() < DISTURBED else 1.0
        self.cost += cost
        self._shown += cost * slow * self._dice.uniform(1 - JITTER, 1 + JITTER)


TOKEN = {64: 0.05}
"""Cost of a drafted token: that of a head, in plain rounds."""
MACHINES = (
    Machine("M4 Pro, 4 bits", {64: {1: 1.0, 4: 1.43, 8: 2.84}}, TOKEN),
    Machine("M3 Ultra, 4 bits", {64: {1: 1.0, 4: 3.26, 8: 6.12}}, TOKEN),
    Machine("flat", {64: {1: 1.0, 8: 1.0}}, TOKEN),
    Machine(
        "flat, then steep", {64: {1: 1.0, 8: 1.5}, 8192: {1: 5.0, 8: 29.0}}, {64: 0.05, 8192: 0.25}
    ),
)
"""Two Macs (mlx issues 3852 and 4265), a machine on which rows cost nothing, and one on which they
cost little after a short context and much after a long one."""


@dataclass(frozen=True, slots=True)
class SimulatedDraft:
    """Implements `mmspec.decoding.contract.Draft`: a chain or a tree."""

    paths: Sequence[Path]
    """[n] the nodes, parents before children."""
    parents: list[int]
    """[n] index of each node's parent, -1 for the root."""
    tokens: list[int]
    """[n] the drafted tokens."""
    depth: int
    """The number of levels that were drafted; the surest nodes may reach fewer."""

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.paths)


NOTHING = SimulatedDraft((), [], [], 0)


@lru_cache
def drafted_paths(tree: Tree | None, k: int, acceptance: float) -> tuple[Path, ...]:
    """The nodes of a draft of k levels: a chain, or those likeliest to be accepted."""
    if tree is None:
        return tuple((0,) * length for length in range(1, k + 1))
    paths = [path for _, path in surest_paths(acceptance, tree.nodes, k, SECOND)]
    return tuple(sorted(paths, key=len))


class SimulatedTarget:
    """As much of a target as the loop needs; the token at position n is n."""

    def __init__(self, machine: Machine, clock: Clock, prompt: int) -> None:
        self._machine, self._clock = machine, clock
        self.length = prompt

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:
        """Charge the forward; the target's own tokens are the positions."""
        tree = draft if isinstance(draft, SimulatedDraft) else NOTHING
        self._clock.spend(self._machine.verification(tree.size + 1, self.length))
        own = [self.length + len(path) for path in ((), *tree.paths)]
        return Verdict(tree.tokens, tree.parents, own)

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the accepted nodes and a token."""
        self.length += len(path) + 1


class SimulatedDrafter:
    """As much of a drafter as the loop needs; which token is right is chance.

    The rank of the right token at a position depends on the seed and the position alone, so every
    draft meets the same text.
    """

    def __init__(
        self, machine: Machine, clock: Clock, prompt: int, acceptance: float, seed: int
    ) -> None:
        self._machine, self._clock, self.length = machine, clock, prompt
        self._prompt, self._acceptance = prompt, acceptance
        self._dice, self._draws = random.Random(seed), list[float]()

    def draft(self, plan: Plan, noise: Noise) -> SimulatedDraft:
        """Charge and draft a chain of k tokens or a tree of k levels."""
        k, tree = plan.gamma, Tree().within(plan.nodes, plan.gamma)
        self._clock.spend(k * self._machine.drafted_level(tree.width if tree else 1, self.length))
        paths = drafted_paths(tree, k, self._acceptance)
        places = {path: place for place, path in enumerate(paths)}
        right = tuple(self._rank(self.length + level) for level in range(k))
        tokens = [
            self.length + len(path) - 1 if path == right[: len(path)] else WRONG - place
            for path, place in places.items()
        ]
        return SimulatedDraft(paths, [places.get(path[:-1], -1) for path in paths], tokens, k)

    def commit(self, path: Sequence[int], tokens: Sequence[int], verdict: Verdict) -> None:
        """Append `tokens`."""
        self.length += len(tokens)

    def _rank(self, position: int) -> int:
        """Rank of the right token at `position` among the draft's tokens."""
        while len(self._draws) <= position - self._prompt:
            self._draws.append(self._dice.random())
        left = 1 - self._draws[position - self._prompt]
        if left > 1 - self._acceptance:
            return 0
        return 1 + int(log(left / (1 - self._acceptance)) / log(1 - min(SECOND, self._acceptance)))
