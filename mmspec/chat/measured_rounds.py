"""Times of an answer's rounds and log-probabilities of its tokens, which the loop does not know."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Verifier
from mmspec.decoding.draft import Draft, Plan
from mmspec.decoding.loop import DraftLengthPolicy
from mmspec.decoding.noise import Noise
from mmspec.decoding.statistics import Likelihood, Round, likelihoods


class MeasuredRounds:
    """Implements `Verifier` and `DraftLengthPolicy` by a target and a policy; completes rounds."""

    def __init__(
        self,
        target: Verifier,
        draft_length: DraftLengthPolicy,
        likeliest: int | None = None,
        clock: Callable[[], float] = perf_counter,
        work: Callable[[], float] | None = None,
    ) -> None:
        """likeliest: number of likeliest tokens to report with every token's log-probability; None
        reports nothing.  clock: function that returns seconds.  work: function that returns those
        which count as costs: not other programs' time on the processor, nor captures of graphs.
        """
        self._target, self._draft_length = target, draft_length
        self._likeliest, self._clock = likeliest, clock
        self._work, self._work_start = work, 0.0
        self._times: list[float] = []
        self._likelihoods: tuple[Likelihood, ...] = ()
        self._verdict = Verdict([], [], [])
        self.round = Round([], 0, 0, 0)
        """The last round, with its times and log-probabilities."""

    @property
    def length(self) -> int:
        """Number of tokens in the target's sequence."""
        return self._target.length

    def choose(self, max_gamma: int, context: int) -> Plan:
        """The draft length's plan; a round begins."""
        self._times = [self._clock()]
        self._work_start = self._work() if self._work else 0.0
        return self._draft_length.choose(max_gamma, context)

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:
        """The target's verdict.  Blocks."""
        self._times.append(self._clock())
        self._verdict = self._target.verify(draft, noise)
        self._times.append(self._clock())
        return self._verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Commit to the target, after reading the log-probabilities of the round's tokens."""
        if self._likeliest is not None and (logits := self._verdict.logits):
            rows = logits.to_host(logits.array)[[0, *(node + 1 for node in path)]]
            tokens = [*self._verdict.along(path), token]
            self._likelihoods = likelihoods(rows, tokens, self._likeliest)
        self._target.commit(path, token)

    def observe(self, round_: Round) -> None:
        """Complete the round, and let the draft length observe it."""
        start, draft_end, verify_end = self._times
        cost = self._clock() - start
        if self._work:  # threads count several times
            cost = min(cost, self._work() - self._work_start)
        self.round = replace(
            round_,
            draft_seconds=draft_end - start,
            verify_seconds=verify_end - draft_end,
            cost_seconds=cost,
            likelihoods=self._likelihoods,
        )
        self._draft_length.observe(self.round)
