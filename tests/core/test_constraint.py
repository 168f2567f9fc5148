"""Decoding within a constraint: plain decoding's tokens among the allowed ones, whatever drafts."""

import numpy as np
import pytest
from test_loop import PROMPT, SAMPLINGS, chain_and_trees, opened, rounds_of

from mmspec.decoding.constraint import ConstrainedTarget
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import GREEDY
from support.scripted import logits

STOP = (0,)


class Steps:
    """Allows tokens that differ from the last one by 1, 2 or 5, and the stop token after a 7."""

    def __init__(self):
        self.last = 3

    def allowed(self):
        steps = {(self.last + step) % 11 for step in (1, 2, 5)} | {0}
        return np.array([t in steps and (t or self.last == 7) for t in range(11)], bool)

    def advance(self, token):
        assert self.allowed()[token]
        assert token not in STOP
        self.last = token


def expected(sampling, seed, count):
    """Choice by choice, from the scripted logits."""
    constraint, sequence = Steps(), list(PROMPT)
    for _ in range(count):
        row = np.where(constraint.allowed(), logits(0, sequence, 11), -np.inf)
        keys = HOST.keys(Noise(seed, len(sequence)), 1)
        sequence.append(int(HOST.sampler(sampling).tokens(row[None], keys)[0]))
        if sequence[-1] in STOP:
            break
        constraint.advance(sequence[-1])
    return sequence[len(PROMPT) :]


@chain_and_trees
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLINGS["T1"], SAMPLINGS["both"]])
def test_drafts_do_not_change_what_a_constraint_allows(sampling, tree):
    target, drafter = opened(sampling=sampling, tree=tree, wrong_every=4)
    within = ConstrainedTarget(target, Steps(), sampling, STOP)
    rounds = rounds_of(within, drafter, gamma=4, max_tokens=25, seed=1, stop=STOP)
    tokens = [token for each in rounds for token in each.tokens]
    assert tokens == expected(sampling, 1, 25)
    assert target.sequence[len(PROMPT) :] == tokens
    assert drafter.length == target.length


def test_drafts_that_a_constraint_allows_are_accepted():
    target, drafter = opened(wrong_every=40)
    anything = type(
        "Anything", (), {"allowed": lambda _: np.ones(11, bool), "advance": lambda *_: None}
    )()
    within = ConstrainedTarget(target, anything, GREEDY, ())
    rounds = rounds_of(within, drafter, gamma=4, max_tokens=30)
    assert max(each.accepted for each in rounds) == 4
