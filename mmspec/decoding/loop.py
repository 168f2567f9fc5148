"""Speculative decoding: draft, verify, commit the accepted tokens."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Protocol

from mmspec.decoding.acceptance import accept
from mmspec.decoding.contract import Drafter, Target
from mmspec.decoding.draft import PLAIN_PLAN, Plan
from mmspec.decoding.likelihoods import likelihoods
from mmspec.decoding.noise import Noise
from mmspec.decoding.statistics import Round


class Weighting(Protocol):
    """Chooses, before each round, the weights of the branches.

    A drafter that adapts starts from these weights and never uses a branch whose weight is zero.
    """

    def weights(self, row_lengths: Sequence[int], gamma: int) -> Sequence[float]:
        """A weight per branch, summing to one; empty if none has `gamma` unused positions."""


class DraftLengthPolicy(Protocol):
    """Chooses, before each round, how many tokens to draft, and observes the round afterwards."""

    def choose(self, max_gamma: int, context: int) -> Plan:
        """What to draft, 0 <= gamma <= max_gamma; 0 is a plain round.

        context: the target's length, on which the cost of a round depends.
        """

    def observe(self, round_: Round) -> None:
        """Observe a finished round; it may have drafted fewer tokens than were chosen."""


def decode(
    target: Target,
    drafter: Drafter | None,
    weighting: Weighting | None,
    *,
    draft_length: DraftLengthPolicy,
    max_tokens: int,
    stop: Collection[int] = (),
    seed: int = 0,
    clock: Callable[[], float] = perf_counter,
    likeliest: int | None = None,
) -> Iterator[Round]:
    """Decode until a stop token or `max_tokens`, yielding one `Round` at a time.

    The tokens equal those of plain decoding: they depend only on the prompt, `seed`, the target and
    its sampling.  Between rounds both sequences are consistent, so a consumer may stop there.
    clock: function that returns seconds, from which rounds take their times.  likeliest: number of
    likeliest tokens to report with every token's log-probability; None reports nothing.
    """
    left = max_tokens
    while left > 0:
        noise, times = Noise(seed, target.length), [clock()]
        gamma, nodes = draft_length.choose(left - 1, target.length) if drafter else PLAIN_PLAN
        weights: Sequence[float] = ()
        if drafter and weighting and gamma:
            weights = weighting.weights(drafter.row_lengths, gamma)
        draft = drafter.draft(gamma, weights, noise, nodes) if drafter and weights else None
        times.append(clock())
        verdict = target.verify(draft, noise)
        times.append(clock())
        path, tokens = accept(verdict, stop)
        round_ = Round.of(tokens, path, draft, verdict, weights, times)
        if likeliest is not None and verdict.logits:
            rows = [0, *(node + 1 for node in path)][: len(tokens)]
            report = likelihoods(verdict.logits()[rows], tokens, likeliest)
            round_ = replace(round_, likelihoods=report)
        path = path[: len(tokens) - 1]  # without a stop token, which is never fed
        target.commit(path, tokens[-1])
        if drafter:
            drafter.commit(path, tokens, verdict.evidence)
        left = 0 if tokens[-1] in stop else left - len(tokens)
        draft_length.observe(round_)
        yield round_
