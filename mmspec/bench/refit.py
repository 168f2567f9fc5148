"""What fitting weights costs, beside the draft and the verification of its round."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

from mmspec.adaptive import Adaptation
from mmspec.bench.prompts import Prompt
from mmspec.drafting import Drafting, parse_drafting
from mmspec.engine import Engine
from mmspec.errors import UsageError
from mmspec.loop import walk
from mmspec.options import Options
from mmspec.replay import opened, rendered
from mmspec.sampling import GREEDY
from mmspec.seam import Drafter, Target
from mmspec.session import DraftSide


@dataclass(frozen=True, slots=True)
class RefitCost:
    """Median seconds of a round's parts over the rounds of one greedy answer.

    Two drafters go through the same rounds: one that adapts, and one that is given the weights
    which the other has fitted.  A round's refit is the difference of the two drafts' seconds.
    """

    drafting: str
    rule: str
    gamma: int
    rounds: int
    refit: float
    draft: float
    """With weights given."""
    verify: float

    @property
    def share(self) -> float:
        """Of a round with weights given."""
        return self.refit / (self.draft + self.verify)

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-serializable."""
        return asdict(self) | {"share": self.share}


def refit_cost(
    engine: Engine, prompt: Prompt, options: Options, drafting: str, tokens: int = 96
) -> RefitCost:
    """Time the rounds of the first `tokens` tokens after `prompt`, the first rounds left out."""
    draft, gamma = engine.draft, options.longest_draft
    if draft is None:
        raise UsageError("the cost of adaptive weights needs a draft: give --draft")
    adaptation = options.adaptive or Adaptation()
    chosen = parse_drafting(drafting, draft.model.config)
    target = opened(engine, prompt.message)
    fixed, adapting = (_drafter(engine, prompt, chosen, each) for each in (None, adaptation))
    rows, end = [], target.length + tokens
    while target.length < end:
        rows.append(_round(engine, target, fixed, adapting, chosen, gamma))
    counted = rows[2:] or rows
    refit, plain, verify = (median(column) for column in zip(*counted, strict=True))
    return RefitCost(drafting, adaptation.rule, gamma, len(counted), refit, plain, verify)


def _drafter(
    engine: Engine, prompt: Prompt, drafting: Drafting, adaptation: Adaptation | None
) -> Drafter:
    assert engine.draft is not None
    model, branches = engine.draft.model, len(drafting.branches)
    vocabulary = engine.target.model.config.text.vocab_size
    drafter = model.open_drafter(branches, vocabulary, GREEDY, adaptation)
    side = DraftSide(drafting, engine.draft.views(engine.caption), drafter, None)
    side.prefill(rendered(engine, prompt.message))
    return drafter


def _round(
    engine: Engine, target: Target, fixed: Drafter, adapting: Drafter, drafting: Drafting, k: int
) -> tuple[float, float, float]:
    """Seconds of the refit, of a draft without it and of the verification; commits the round."""
    clock = [_now(engine)]
    draft = adapting.draft(k, drafting.weights, ())
    clock.append(_now(engine))
    verdict = target.verify(draft, ())
    clock.append(_now(engine))
    # With the fitted weights given, the other drafts the same tokens.
    fixed.draft(k, verdict.weights, ())
    clock.append(_now(engine))
    path = walk(verdict, ())
    tokens = [verdict.drafted[node] for node in path] + [verdict.fallback[len(path)]]
    target.commit(path, tokens[-1])
    for drafter in (fixed, adapting):
        drafter.commit(path, tokens)
    fitted, verify, plain = (b - a for a, b in pairwise(clock))
    return fitted - plain, plain, verify


def _now(engine: Engine) -> float:
    engine.backend.synchronize()
    return perf_counter()
