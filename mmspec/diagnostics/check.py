"""Compares plain and speculative decoding token for token."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmspec.chat.answer import Answer
from mmspec.chat.engine import Engine
from mmspec.chat.options import Gamma, Options
from mmspec.chat.session import Session
from mmspec.decoding import formulas
from mmspec.decoding.contract import Float32, Target
from mmspec.decoding.exact_rows import ExactFields, ExactRows
from mmspec.decoding.noise import NO_NOISE, Noise, exponentials
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.diagnostics.prompts import Prompt
from mmspec.drafters.views import LOOKUP, PLAIN
from mmspec.ground.errors import UsageError
from mmspec.ground.tokens import NO_TOKEN, common_prefix
from mmspec.prompt.conversation import Conversation, Message, Turn
from mmspec.prompt.tokenizer import Tokenizer

Outcome = Literal["identical", "near-tie", "bug"]

EXIT_CODES: dict[Outcome, int] = {"identical": 0, "near-tie": 3, "bug": 1}

NEAR_TIES = {"float32": 1e-4, "float16": 0.03, "bfloat16": 0.25}
"""Largest gap between two logits that rounding can invert, by the dtype of activations.

The order of summation depends on the number of rows. The 16-bit values are about one unit in the
last place of a logit near 32; quantized weights have the limit of their activations' dtype.
"""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first position at which two answers differ.

    Logits are compared after adding the noise of sampling, logits - T log E: the largest is the
    token.  Rounding moves these values as far as the logits themselves.
    """

    position: int
    """Number of equal tokens before the divergence."""
    first: int
    second: int
    """The token ids of both answers; NO_TOKEN (-1) if an answer has ended."""
    texts: tuple[str, str]
    gap: float | None
    """Largest logit minus the second, in plain decoding; None if top-k or top-p leaves one."""
    shortfall: float | None
    """The largest logit minus the lower one of the two differing tokens.

    None if an answer has ended, or if top-k or top-p certainly excludes a token.
    """

    def outcome(self, threshold: float) -> Outcome:
        """A near-tie if both tokens are within `threshold` of the largest logit, else a bug.

        If decoding is exact, `threshold` is 0 and nothing is a near-tie.
        """
        is_tie = self.shortfall is not None and self.shortfall <= threshold and threshold > 0
        return "near-tie" if is_tie else "bug"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The plain and the speculative answer to one prompt, compared."""

    prompt: str
    outcome: Outcome
    tokens: int
    """Number of tokens in the plain answer."""
    drafted: int
    """Number of tokens drafted for the speculative answer; 0 if nothing was tested."""
    drafting: str
    block_efficiency: float
    divergence: Divergence | None
    notes: list[str]
    """Notes on views that were too long for the draft's positions."""


@dataclass(frozen=True, slots=True)
class CheckReport(ExactFields):
    """All comparisons, with the models and options that were compared."""

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
        """The worst outcome over all prompts."""
        return max((result.outcome for result in self.comparisons), key=list(EXIT_CODES).index)

    @property
    def exit_code(self) -> int:
        """The command's exit status: 0 identical, 3 near-tie, 1 bug."""
        return EXIT_CODES[self.outcome]

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON-serializable object."""
        return {"outcome": self.outcome, "exit_code": self.exit_code} | asdict(self)


def check(engine: Engine, prompts: Iterable[Prompt], options: Options) -> CheckReport:
    """Compare plain and speculative answers.  Raises UsageError if nothing was drafted."""
    model, threshold = engine.target.model, near_tie(engine, options)
    comparisons = [compare(engine, prompt, options, threshold) for prompt in prompts]
    if not comparisons:
        raise UsageError("nothing to check: give a prompt")
    if not any(result.drafted or result.outcome != "identical" for result in comparisons):
        notes = dict.fromkeys(note for result in comparisons for note in result.notes)
        why = "; ".join(notes) or "ask for longer answers, or give a `draft` or another `drafting`"
        raise UsageError(f"nothing was drafted in any answer, so nothing was checked: {why}")
    return CheckReport(
        engine.target.name,
        engine.drafts.name if engine.drafts else LOOKUP.spec,
        engine.backend.name,
        model.device,
        model.dtype,
        model.quantize,
        options.gamma,
        threshold,
        comparisons,
        **engine.exact_fields(options.exact),
    )


def near_tie(engine: Engine, options: Options) -> float:
    """The largest shortfall of a near-tie; 0 if decoding is exact: every difference is a bug."""
    return 0.0 if engine.exact_rows(options.exact) else NEAR_TIES[engine.target.model.dtype]


def compare(engine: Engine, prompt: Prompt, options: Options, threshold: float) -> Comparison:
    """Answer one prompt plainly, then speculatively."""
    plain = answer_once(engine, prompt.message, replace(options, drafting=PLAIN.spec))
    speculative = answer_once(engine, prompt.message, options)
    divergence = first_divergence(engine, prompt.message, plain, speculative, options)
    return Comparison(
        prompt.name,
        divergence.outcome(threshold) if divergence else "identical",
        len(plain.token_ids),
        speculative.statistics.drafted,
        speculative.drafting.spec,
        speculative.statistics.block_efficiency,
        divergence,
        speculative.notes,
    )


def first_divergence(
    engine: Engine,
    message: Message,
    first: Answer,
    second: Answer,
    options: Options,
    before: Sequence[Turn] = (),
) -> Divergence | None:
    """Where two answers to `message` after the turns `before` first differ; None if nowhere."""
    if first.token_ids == second.token_ids:
        return None
    prefix = first.token_ids[: common_prefix(first.token_ids, second.token_ids)]
    place = place_after(engine, message, prefix, options, before)
    return describe_divergence(first.token_ids, second.token_ids, place, engine.target.tokenizer)


@dataclass(frozen=True, slots=True)
class Place:
    """What decides the next token at one position of an answer: logits, sampling and noise."""

    logits: Float32
    """The target's logits over the vocabulary."""
    sampling: Sampling = GREEDY
    noise: Noise = NO_NOISE
    rounding: float = NEAR_TIES["float32"]
    """Largest rounding error of a logit."""

    def scores(self) -> tuple[Float32, NDArray[np.bool_]]:
        """The scores logits - T log E, and a mask of the tokens that are certainly not excluded.

        The score of a token that top-k or top-p certainly excludes is -inf.
        """
        scores, lowest, surest = self.logits, -np.inf, -np.inf
        if not self.sampling.greedy:
            keys = np.array(self.noise.keys(1), dtype=np.uint32)
            ids = np.arange(len(scores), dtype=np.uint32)
            noise = np.log(exponentials(np, keys, ids)[0])
            scores = scores - np.float32(self.sampling.temperature) * noise
            lowest, surest = self._floor(self.rounding), self._floor(-self.rounding)
        return np.where(self.logits >= lowest, scores, -np.inf), self.logits >= surest

    def _floor(self, rounding: float) -> float:
        """The least logit that top-k and top-p keep if every logit may be off by `rounding`."""
        top_k, top_p, T = self.sampling.top_k, self.sampling.top_p, self.sampling.temperature
        logits = np.sort(self.logits)[::-1][: top_k or None]
        if top_p < 1:
            p = formulas.softmax(np, logits / T)
            mass = top_p * (1 + 2 * rounding / T)
            logits = logits[p >= formulas.nucleus_floor(np, p, mass)]
        return min(float(logits[-1]) - rounding, float(logits[0]))


def describe_divergence(
    first: Sequence[int], second: Sequence[int], place: Place, tokenizer: Tokenizer
) -> Divergence:
    """Describe where two different answers diverge.  place: the target's state there."""
    position = common_prefix(first, second)
    ids = [answer[position] if position < len(answer) else NO_TOKEN for answer in (first, second)]
    scores, sure = place.scores()
    best, runner_up = np.sort(scores)[-1:-3:-1]
    below = float(scores[sure].max() - min(scores[ids])) if min(ids) >= 0 else np.inf
    texts = [tokenizer.decode([id], skip_special=False) if id >= 0 else "" for id in ids]
    gap = float(best - runner_up) if runner_up > -np.inf else None
    shortfall = below if below < np.inf else None
    return Divergence(position, ids[0], ids[1], (texts[0], texts[1]), gap, shortfall)


def place_after(
    engine: Engine,
    message: Message,
    tokens: Sequence[int],
    options: Options,
    before: Sequence[Turn] = (),
) -> Place:
    """Feed earlier turns, `message` and the answer so far; return the target's state after them.

    before: the earlier turns. tokens: the answer so far, fed one per forward as in plain decoding.
    """
    target = prefilled_target(engine, message, before, engine.exact_rows(options.exact))
    for token in tokens:
        feed(target, token)
    noise, rounding = Noise(options.seed, target.length), NEAR_TIES[engine.target.model.dtype]
    return Place(target.logits(), options.sampling, noise, rounding)


def prefilled_target(
    engine: Engine, message: Message, before: Sequence[Turn] = (), exact: ExactRows | None = None
) -> Target:
    """A greedy target sequence, prefilled with `message` after the turns `before`."""
    target = engine.target
    sequence = target.model.open_target(GREEDY, exact)
    session = Session(sequence, target.views(engine.caption), target.view)
    conversation = Conversation(turns=[*before, Turn(message)])
    for _ in session.prefill(target.chunks(conversation)):
        pass
    return sequence


def answer_once(engine: Engine, message: Message, options: Options) -> Answer:
    """The whole answer to one message in a new conversation."""
    return engine.chat(options).send(message).finish()


def feed(target: Target, token: int) -> None:
    """Append one token as plain decoding does: one row per forward."""
    target.verify(None, NO_NOISE)
    target.commit((), token)
