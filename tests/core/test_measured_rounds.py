"""What a round costs, where other programs take the processor for a while."""

import pytest

from mmspec.chat.measured_rounds import MeasuredRounds
from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.statistics import Round
from mmspec.draft_length.policy import FixedDraftLength


class Target:
    length = 3

    def verify(self, draft, noise):
        return Verdict([7], [], [])


@pytest.mark.parametrize(
    ("processor", "cost"), [((5.0, 6.0), 1.0), ((5.0, 25.0), 4.0), (None, 4.0)]
)
def test_time_of_other_programs_is_no_cost(processor, cost):
    """Four seconds pass; the process computes for one of them, with five threads for twenty."""
    clock = iter([0.0, 1.0, 4.0])
    work = iter(processor).__next__ if processor else None
    rounds = MeasuredRounds(Target(), FixedDraftLength(0), clock=clock.__next__, processor=work)
    rounds.choose(0, 3)
    rounds.verify(None, NO_NOISE)
    rounds.observe(Round([7], 0, 0, 0))
    assert rounds.round.cost_seconds == cost
    assert (rounds.round.draft_seconds, rounds.round.verify_seconds) == (1.0, 3.0)
