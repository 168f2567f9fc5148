"""Plain against speculative decoding, token for token."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from mmspec.bench.prompts import Prompt
from mmspec.chat import Answer
from mmspec.conversation import Message, Turn
from mmspec.drafting import NGRAM, PLAIN
from mmspec.engine import Engine
from mmspec.errors import UsageError
from mmspec.options import Gamma, Options
from mmspec.replay import feed, opened
from mmspec.seam import Float32
from mmspec.tokenizer import Tokenizer

Outcome = Literal["identical", "near-tie", "bug"]

EXIT_CODES: dict[Outcome, int] = {"identical": 0, "near-tie": 3, "bug": 1}

NEAR_TIES = {"float32": 1e-4, "float16": 0.03, "bfloat16": 0.25}
"""The largest logit gap that rounding may decide, by the type activations are computed in.

More rows at once change the order of summation. The 16-bit values are about one unit in the last
place of a logit near 32; with packed weights too the activations' type decides.
"""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first place where two greedy answers differ."""

    position: int
    """Tokens of the answer before it."""
    first: int
    second: int
    """The two token ids; -1 where an answer has ended."""
    texts: tuple[str, str]
    gap: float
    """The best logit minus the second best there, decoding plainly."""
    shortfall: float | None
    """The best logit minus the lower of the two tokens' there; None where an answer has ended."""

    def outcome(self, threshold: float) -> Outcome:
        """A near-tie only where both tokens are within `threshold` of the best."""
        tie = self.shortfall is not None and self.shortfall <= threshold
        return "near-tie" if tie else "bug"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One prompt answered twice."""

    prompt: str
    outcome: Outcome
    tokens: int
    """Tokens of the plain answer."""
    drafted: int
    """Tokens drafted for the speculative one; with none of them nothing was put to the test."""
    drafting: str
    block_efficiency: float
    divergence: Divergence | None
    notes: list[str]
    """What the drafting had to leave out, or draws from."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found, and on what."""

    model: str
    draft: str
    backend: str
    device: str
    dtype: str
    quantize: str
    gamma: Gamma
    threshold: float
    comparisons: list[Comparison]

    @property
    def outcome(self) -> Outcome:
        """The worst of all prompts."""
        return max((each.outcome for each in self.comparisons), key=list(EXIT_CODES).index)

    @property
    def exit_code(self) -> int:
        """0 identical, 3 near-tie, 1 bug."""
        return EXIT_CODES[self.outcome]

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-serializable."""
        return {"outcome": self.outcome, "exit_code": self.exit_code} | asdict(self)


def check(engine: Engine, prompts: Iterable[Prompt], options: Options) -> CheckReport:
    """Answer every prompt plainly and speculatively and compare.

    Raises UsageError where there is nothing to compare: no draft, nothing that it drafted, or
    sampling, whose tokens agree in distribution and not one by one.
    """
    require_comparable(options)
    draft = _draft_of(engine, options)
    model = engine.target.model
    threshold = NEAR_TIES[model.dtype]
    comparisons = [compare(engine, prompt, options, threshold) for prompt in prompts]
    if not comparisons:
        raise UsageError("nothing to check: give a prompt")
    _require_drafted(comparisons)
    return CheckReport(
        engine.target.name,
        draft,
        engine.backend.name,
        model.device,
        model.dtype,
        model.quantize,
        options.gamma,
        threshold,
        comparisons,
    )


def require_comparable(options: Options) -> None:
    """Raise UsageError for options under which answers cannot be compared token for token."""
    if not options.sampling.greedy:
        raise UsageError(
            f"check compares greedy answers, got --temperature {options.sampling.temperature}: "
            "sampled ones agree in distribution, not token for token; leave --temperature at 0"
        )
    if options.drafting == PLAIN.word:
        raise UsageError("check compares drafting with plain decoding: leave --drafting none out")


def _draft_of(engine: Engine, options: Options) -> str:
    if options.drafting == NGRAM.word:
        return NGRAM.word
    name = engine.drafts.name if engine.drafts else engine.draftless
    if name == PLAIN.word:
        raise UsageError("check needs a draft to compare with plain decoding: give --draft")
    return name


def _require_drafted(comparisons: Sequence[Comparison]) -> None:
    """Raise UsageError where answers are identical because every one was decoded plainly."""
    if any(each.drafted or each.outcome != "identical" for each in comparisons):
        return
    notes = dict.fromkeys(note for each in comparisons for note in each.notes)
    why = "; ".join(notes) or "ask for longer answers, or give another --drafting"
    raise UsageError(f"nothing was drafted in any answer, so nothing was checked: {why}")


def compare(engine: Engine, prompt: Prompt, options: Options, threshold: float) -> Comparison:
    """Answer one prompt plainly, then speculatively."""
    plain, speculative = (_answered(engine, prompt, options, spec) for spec in (False, True))
    said, other = plain.token_ids, speculative.token_ids
    divergence = None
    if said != other:
        logits = logits_after(engine, prompt.message, said[: common_prefix(said, other)])
        divergence = diverged(said, other, logits, engine.target.tokenizer)
    return Comparison(
        prompt.name,
        divergence.outcome(threshold) if divergence else "identical",
        len(said),
        speculative.statistics.drafted,
        speculative.drafting.word,
        speculative.statistics.block_efficiency,
        divergence,
        speculative.notes,
    )


def _answered(engine: Engine, prompt: Prompt, options: Options, speculate: bool) -> Answer:
    chat = engine.chat(options)
    chat.speculate = speculate
    for _ in chat.send(prompt.message):
        pass
    return chat.answer


def diverged(
    first: Sequence[int], second: Sequence[int], logits: Float32, tokenizer: Tokenizer
) -> Divergence:
    """Describe where two different answers part.

    logits: [V] of the target after the tokens they share.
    """
    at = common_prefix(first, second)
    ids = [_token(answer, at) for answer in (first, second)]
    best, runner_up = np.sort(logits)[-1:-3:-1]
    shortfall = float(best - min(logits[ids])) if min(ids) >= 0 else None
    texts = [tokenizer.decode([id], skip_special=False) if id >= 0 else "" for id in ids]
    gap = float(best - runner_up)
    return Divergence(at, ids[0], ids[1], (texts[0], texts[1]), gap, shortfall)


def _token(answer: Sequence[int], at: int) -> int:
    return answer[at] if at < len(answer) else -1


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading tokens two answers share."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))


def logits_after(
    engine: Engine, message: Message, tokens: Sequence[int], before: Sequence[Turn] = ()
) -> Float32:
    """Next-token logits [V] after `before`, `message` and `tokens`, these fed one by one."""
    target = opened(engine, message, before)
    for token in tokens:
        feed(target, token)
    return target.logits()
