"""Speculative decoding: draft, verify, keep what the target would have said."""

from collections.abc import Collection, Iterator, Sequence
from time import perf_counter
from typing import Protocol

from mmspec.draft import Verdict
from mmspec.lengths import FixedLength
from mmspec.sampling import uniforms
from mmspec.seam import Drafter, Target
from mmspec.statistics import Round


class Weighting(Protocol):
    """Decides, before each round, how the branches are mixed.

    A drafter that adapts starts from these weights and never mixes in a branch that has none.
    """

    def weights(self, row_lengths: Sequence[int], gamma: int) -> Sequence[float]:
        """[R] weights summing to one, or none at all where no branch may draft."""
        ...


class Lengths(Protocol):
    """Decides, before each round, how many tokens to draft, and is told what became of it."""

    def choose(self, limit: int) -> int:
        """k, 0 <= k <= limit; 0 is a plain round."""
        ...

    def observe(self, round_: Round) -> None:
        """Take in a finished round; it may have drafted fewer than were asked for."""
        ...


def decode(
    target: Target,
    drafter: Drafter | None,
    weighting: Weighting | None,
    *,
    gamma: int | Lengths,
    max_tokens: int,
    stop: Collection[int] = (),
    seed: int | None = None,
) -> Iterator[Round]:
    """Decode until a stop token or `max_tokens`, yielding one `Round` at a time.

    The tokens are exactly the target's own: its argmax where `seed` is None, else distributed as
    it alone would draw them (Leviathan et al. 2023). Between rounds both sequences are consistent:
    a consumer may stop there.
    """
    lengths = FixedLength(gamma) if isinstance(gamma, int) else gamma
    left = max_tokens
    while left > 0:
        started = perf_counter()
        draft = None
        k = lengths.choose(left - 1) if drafter else 0
        weights = weighting.weights(drafter.row_lengths, k) if drafter and weighting and k else ()
        if drafter and weights:
            draft = drafter.draft(k, weights, draws(seed, target.length, "draft", k))
        drafted = perf_counter()
        k = draft.size if draft else 0
        verdict = target.verify(draft, draws(seed, target.length, "fallback", k + 1))
        verified = perf_counter()

        path = walk(verdict, draws(seed, target.length, "accept", k))
        last = path[-1] if path else -1
        tokens = [verdict.drafted[node] for node in path] + [verdict.fallback[last + 1]]
        tokens = until_stop(tokens, stop)
        kept = path[: len(tokens) - 1]
        target.commit(kept, tokens[-1])
        if drafter:
            drafter.commit(kept, tokens)
        left = 0 if tokens[-1] in stop else left - len(tokens)
        accepted = min(len(path), len(tokens))
        mixed = tuple(verdict.weights or weights) if draft else ()
        spent = drafted - started, verified - drafted
        seen = verdict.seen[last + 1] if verdict.seen else 0.0
        round_ = Round(tokens, k, accepted, *spent, mixed, draft.depth if draft else 0, seen)
        lengths.observe(round_)
        yield round_


def draws(seed: int | None, length: int, role: str, count: int) -> Sequence[float]:
    """Uniforms for this round, or none where nothing is drawn."""
    return () if seed is None else uniforms(seed, length, role, count)


def walk(verdict: Verdict, draws: Sequence[float]) -> list[int]:
    """The accepted path: from the root, step to the first child whose draw accepts it.

    Without draws (greedy) acceptance is 0 or 1 and decides alone.
    """
    path: list[int] = []
    at = -1
    for node, parent in enumerate(verdict.parents):
        if parent == at and (draws[node] if draws else 0.0) < verdict.accept[node]:
            path.append(node)
            at = node
    return path


def until_stop(tokens: list[int], stop: Collection[int]) -> list[int]:
    """`tokens` up to and including the first stop token."""
    for i, token in enumerate(tokens):
        if token in stop:
            return tokens[: i + 1]
    return tokens
