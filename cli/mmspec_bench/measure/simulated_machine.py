"""A target, a drafter and a clock without models: rounds cost what a curve says.

The loop and the draft lengths are the real ones; only the forwards are simulated.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.adaptive_weights import Evidence
from mmspec.decoding.draft import Draft, HostDraft
from mmspec.decoding.noise import Noise
from mmspec.draft_length.calibration_file import CONTEXTS, ROWS, Calibration
from mmspec.draft_length.cost_curves import Curves, at_context
from mmspec.seam import Segment

WRONG = -1
"""A drafted token that is not the target's."""
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

    def calibration(self) -> Calibration:
        """What `mmspec calibrate` would measure here."""
        rows = range(1, ROWS + 1)
        target = {at: {number: self.verification(number, at) for number in rows} for at in CONTEXTS}
        return Calibration(target, {at: {1: self.drafted_token(at)} for at in CONTEXTS})


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


class SimulatedTarget:
    """Implements `mmspec.seam.Target`; the token at position n is n."""

    def __init__(self, machine: Machine, clock: Clock, prompt: int) -> None:
        self._machine, self._clock = machine, clock
        self.length = prompt

    def extend(self, segment: Segment) -> None:
        """Append a segment at no cost."""
        self.length += len(segment)

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on."""
        self.length = length

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:  # noqa: ARG002 - greedy
        """Charge the forward; the target's own tokens are the positions."""
        tokens = draft.tokens if isinstance(draft, HostDraft) else []
        rows = len(tokens) + 1
        self._clock.spend(self._machine.verification(rows, self.length))
        own = [self.length + place for place in range(rows)]
        return Verdict(tokens, [*range(-1, rows - 2)], own)

    def commit(self, path: Sequence[int], token: int) -> None:  # noqa: ARG002 - known
        """Append the accepted nodes and a token."""
        self.length += len(path) + 1

    def hidden_states(self) -> NoReturn:
        """Raise ValueError: there are no states."""
        raise ValueError("a simulated target computes no hidden states: draft without a head")


class SimulatedDrafter:
    """Implements `mmspec.seam.Drafter` for one branch; each token is right by chance.

    Whether the token at a position would be right depends on the seed and the position alone, so
    every draft length meets the same text.
    """

    def __init__(
        self, machine: Machine, clock: Clock, prompt: int, acceptance: float, seed: int
    ) -> None:
        self._machine, self._clock, self.length = machine, clock, prompt
        self._prompt, self._acceptance = prompt, acceptance
        self._dice, self._draws = random.Random(seed), list[float]()

    @property
    def row_lengths(self) -> list[int]:
        """[1] the length of the sequence."""
        return [self.length]

    def extend(self, segments: Sequence[Segment]) -> None:
        """Append the segment of the branch at no cost."""
        self.length += len(segments[0])

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on."""
        self.length = length

    def draft(self, k: int, weights: Sequence[float], noise: Noise) -> HostDraft:  # noqa: ARG002
        """Charge and draft a chain of k tokens."""
        self._clock.spend(k * self._machine.drafted_token(self.length))
        places = range(self.length, self.length + k)
        return HostDraft([place if self._is_right(place) else WRONG for place in places])

    def commit(
        self,
        path: Sequence[int],  # noqa: ARG002 - `tokens` begin with it
        tokens: Sequence[int],
        evidence: Evidence | None = None,  # noqa: ARG002 - weights are fixed
    ) -> None:
        """Append `tokens`."""
        self.length += len(tokens)

    def forget(self) -> None:
        """Do nothing: it does not adapt."""

    def _is_right(self, position: int) -> bool:
        while len(self._draws) <= position - self._prompt:
            self._draws.append(self._dice.random())
        return self._draws[position - self._prompt] < self._acceptance


class OnlyBranch:
    """Implements `mmspec.decoding.loop.Weighting` for one branch."""

    def weights(self, row_lengths: Sequence[int], gamma: int) -> Sequence[float]:  # noqa: ARG002
        """The weight of the branch."""
        return (1.0,)
