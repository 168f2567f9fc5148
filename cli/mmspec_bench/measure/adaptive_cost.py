"""Measures the seconds that a round spends on fitting adaptive weights."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.session import OpenDrafter
from mmspec.decoding.adaptive_weights import Adaptation
from mmspec.decoding.loop import decode
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.statistics import Round
from mmspec.diagnostics.prompts import Prompt
from mmspec.diagnostics.single_turn import chunks_of, prefilled_target
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.views import Drafting, parse_drafting
from mmspec.errors import UsageError
from mmspec.seam import Drafter


@dataclass(frozen=True, slots=True)
class RefitCost:
    """Median seconds of the parts of a round over one greedy answer.

    Two sequences go through the same rounds in turn: the drafter of one adapts, that of the other
    gets the weights that the first has fitted.  The cost of a fit is the difference between them.
    """

    drafting: str
    rule: str
    gamma: int
    rounds: int
    refit: float
    draft: float
    """Seconds of drafting with fixed weights."""
    verify: float

    @property
    def share(self) -> float:
        """The cost of a fit divided by that of a round with fixed weights."""
        return self.refit / (self.draft + self.verify)

    def as_dict(self) -> dict[str, Any]:
        """The costs, JSON-serializable."""
        return asdict(self) | {"share": self.share}


def refit_cost(
    engine: Engine, prompt: Prompt, options: Options, drafting: str, tokens: int = 96
) -> RefitCost:
    """Time the rounds of the first `tokens` tokens after `prompt`, without the first rounds."""
    draft, gamma = engine.draft, options.longest_draft
    if draft is None:
        raise UsageError("the cost of adaptive weights needs a draft: give --draft")
    adaptation = options.adaptive or Adaptation()
    chosen = parse_drafting(drafting, draft.model.config)
    adapting, fixed = (_drafter(engine, prompt, chosen, rule) for rule in (adaptation, None))
    start, replayed = FixedWeights(chosen.weights), FixedWeights(chosen.weights)
    targets = [prefilled_target(engine, prompt.message) for _ in range(2)]
    length = FixedDraftLength(gamma)
    adapting_rounds, fixed_rounds = (
        decode(target, drafter, weights, draft_length=length, max_tokens=tokens)
        for target, drafter, weights in zip(
            targets, (adapting, fixed), (start, replayed), strict=True
        )
    )
    rows = []
    for first in adapting_rounds:
        replayed.current = first.weights or replayed.current
        second = next(fixed_rounds)
        refit = _seconds(first) - _seconds(second)
        rows.append((refit, second.draft_seconds, second.verify_seconds))
    counted = rows[2:] or rows
    refit, plain, verify = (median(column) for column in zip(*counted, strict=True))
    return RefitCost(drafting, adaptation.rule, gamma, len(counted), refit, plain, verify)


@dataclass(slots=True)
class FixedWeights:
    """Implements `mmspec.decoding.loop.Weighting`: returns the current weights unchanged."""

    current: Sequence[float]

    def weights(self, row_lengths: Sequence[int], gamma: int) -> Sequence[float]:  # noqa: ARG002
        """[R] the current weights."""
        return self.current


def _seconds(round_: Round) -> float:
    """Seconds of draft and verification together: verification may wait for the draft."""
    return round_.draft_seconds + round_.verify_seconds


def _drafter(
    engine: Engine, prompt: Prompt, drafting: Drafting, adaptation: Adaptation | None
) -> Drafter:
    assert engine.draft is not None
    model, branches = engine.draft.model, len(drafting.branches)
    vocabulary = engine.target.model.config.text.vocab_size
    drafter = model.open_drafter(branches, vocabulary, GREEDY, adaptation)
    views = engine.draft.views(engine.caption)
    OpenDrafter(drafting, views, drafter, None).prefill(chunks_of(engine, prompt.message))
    return drafter
