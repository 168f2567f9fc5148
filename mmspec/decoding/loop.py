"""Speculative decoding: draft, verify, commit the accepted tokens."""

from collections.abc import Collection, Iterator
from typing import Protocol

from mmspec.decoding.acceptance import accept
from mmspec.decoding.contract import Drafter, Verifier
from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import Noise
from mmspec.decoding.statistics import Round


class DraftLengthPolicy(Protocol):
    """Chooses, before each round, how many tokens to draft, and observes the round afterwards."""

    def choose(self, max_gamma: int, context: int) -> Plan:
        """The plan of a round's draft, 0 <= gamma <= max_gamma; with 0 the round is plain.

        context: the target's length, on which the cost of a round depends.
        """

    def observe(self, round_: Round) -> None:
        """Observe a finished round; it may have drafted fewer tokens than were chosen."""


def decode(
    target: Verifier,
    drafter: Drafter | None,
    draft_length: DraftLengthPolicy,
    *,
    max_tokens: int,
    stop: Collection[int] = (),
    seed: int = 0,
) -> Iterator[Round]:
    """Decode until a stop token or `max_tokens`, yielding one `Round` at a time.

    The tokens equal those of plain decoding: they depend only on the prompt, `seed`, the target and
    its sampling.  Between rounds both sequences are consistent, so a consumer may stop there.
    """
    room = max_tokens
    while room > 0:
        noise = Noise(seed, target.length)
        plan = draft_length.choose(room - 1, target.length)
        draft = drafter.draft(plan, noise) if drafter and (plan.gamma or plan.lookup) else None
        verdict = target.verify(draft, noise)
        path, tokens = accept(verdict, stop)
        target.commit(path, tokens[-1])
        if drafter:
            drafter.commit(path, tokens, verdict)
        round_ = Round.of(tokens, path, draft, verdict)
        draft_length.observe(round_)
        room -= len(tokens)
        yield round_
        if tokens[-1] in stop:
            return
