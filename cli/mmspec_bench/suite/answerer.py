"""Times one method's answers to one sample, and makes their rows.

Every sample opens a new conversation, without vision features and captions computed by other
methods.  Within a conversation the caches stay, as in a chat: a later turn computes only what is
new.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from mmspec.chat.answer import Answer, Piece
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.session import Prefilled
from mmspec.decoding.statistics import Round
from mmspec.diagnostics.check import first_divergence, near_tie
from mmspec.drafters.views import UNLETTERED
from mmspec.exactness.finding import MODES
from mmspec.ground.errors import ContextError, UsageError
from mmspec.prompt.conversation import Turn
from mmspec.prompt.tokenizer import Tokenizer
from mmspec_bench.suite.methods import Method
from mmspec_bench.suite.parameters import drafted_share
from mmspec_bench.suite.rows import PLAIN, RoundRow, Row, RowDivergence
from mmspec_bench.suite.samples import Question, SuiteSample
from mmspec_world import judge

STAGES = ("vision", "caption", "prefill", "draft", "verify", "decode", "total")
DECIMALS = 7
"""Number of decimals of the seconds in a row, the precision of clocks."""


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """One answer, the turns before it, and the seconds to its first token."""

    question: Question
    images: int
    """Number of images in the conversation so far."""
    answer: Answer
    before: tuple[Turn, ...]
    first_token_seconds: float
    refusal: str = ""
    """Why there is no answer: the prompt exceeds the probe's model; else empty."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """A method and the models that it uses."""

    method: Method
    engine: Engine
    options: Options

    def answers(self, questions: Sequence[Question]) -> Iterator[TimedAnswer]:
        """Answer all questions of a new conversation.

        Raises ContextError if a prompt does not fit the target.  If it does not fit the model of a
        probe, this turn and the following ones are refused.
        """
        self.engine.forget()
        chat = self.engine.chat(self.options)
        refusal, images = "", 0
        for question in questions:
            message = question.blank.message if self.method.blank else question.message
            images += len(message.pictures)
            before, seconds = tuple(chat.conversation.turns), 0.0
            try:
                seconds = 0.0 if refusal else _first_token_seconds(chat.send(message))
            except ContextError as error:
                if not self.method.probe:
                    raise
                refusal = str(error)
            answer = Answer() if refusal else chat.answer
            yield TimedAnswer(question, images, answer, before, seconds, refusal)


def _first_token_seconds(pieces: Iterable[Prefilled | Piece]) -> float:
    """Run an answer to its end; returns the seconds to its first text."""
    start, first = perf_counter(), 0.0
    for piece in pieces:
        if isinstance(piece, Piece) and not first:
            first = perf_counter() - start
    return first


def open_answerer(method: Method, engine: Engine, options: Options) -> Answerer:
    """The answerer of a method; raises UsageError if the models cannot do it."""
    models = _draft_alone(engine) if method.of_draft else engine
    answerer = Answerer(method, models, method.options(options))
    models.chat(answerer.options)
    return answerer


def _draft_alone(engine: Engine) -> Engine:
    draft = engine.draft
    if draft is None or draft.features is None:
        raise UsageError("--methods: draft asks the draft about images: load one that sees them")
    never = dict.fromkeys(MODES)  # its answers are compared with nothing
    return Engine(engine.backend, draft, None, None, exactness=never)


def answer_row(
    sample: SuiteSample,
    turn: int,
    position: int,
    answerer: Answerer,
    timed: TimedAnswer,
    plain: TimedAnswer | None,
) -> Row:
    """The row of one answer, compared with plain decoding's answer to the same turn, if any.

    position: the method's index in the order in which the methods answered this sample.
    """
    answer, statistics = timed.answer, timed.answer.statistics
    facts = timed.question.facts
    right = sum(judge(fact, answer.text) for fact in facts)
    seconds = {stage: statistics.seconds[stage] for stage in STAGES}
    seconds["first_token"] = timed.first_token_seconds
    row = Row(
        sample=sample.name,
        task=sample.task,
        images=timed.images,
        turn=turn,
        method=answerer.method.name,
        position=position,
        token_ids=list(answer.token_ids),
        pieces=pieces(answer.token_ids, answerer.engine.target.tokenizer),
        prompt_tokens=statistics.prompt_tokens,
        finish_reason="refused" if timed.refusal else answer.finish_reason,
        rounds=[_round_row(round_) for round_ in answer.rounds],
        branches=[str(branch) for branch in answer.drafting.branches],
        seconds={stage: round(value, DECIMALS) for stage, value in seconds.items()},
        peak_memory_bytes=statistics.peak_memory_bytes,
        weights=[list(r.weights) for r in answer.rounds] if answerer.method.adaptive else None,
        facts={"asked": len(facts), "right": right} if facts else None,
        notes=[*answer.notes, *([timed.refusal] if timed.refusal else [])],
        drafted_share=_drafted_share(answerer) if answer.rounds else None,
        first_image=_first_image(timed),
    )
    # Probes are asked another question or use another model.
    if plain is None or row.method == PLAIN or answerer.method.probe:
        return row
    return _compared(row, answerer, timed, plain)


def _compared(row: Row, answerer: Answerer, timed: TimedAnswer, plain: TimedAnswer) -> Row:
    if timed.before != plain.before:  # the conversation differs
        return replace(row, notes=[*row.notes, "not compared: an earlier answer differs"])
    divergence = _divergence(answerer, timed, plain)
    return replace(row, identical=divergence is None, divergence=divergence)


def _drafted_share(answerer: Answerer) -> float:
    is_without_model = answerer.method.drafting in UNLETTERED
    return 0.0 if is_without_model else drafted_share(answerer.engine)


def _first_image(timed: TimedAnswer) -> str | None:
    """Digest of the conversation's first image; None without images."""
    messages = [*(turn.question for turn in timed.before), timed.question.message]
    return next((picture.digest for message in messages for picture in message.pictures), None)


def _round_row(round_: Round) -> RoundRow:
    draft, verify = (round(s, DECIMALS) for s in (round_.draft_seconds, round_.verify_seconds))
    levels = round_.depth if round_.depth != round_.drafted else None
    return RoundRow(round_.drafted, round_.accepted, len(round_.tokens), draft, verify, levels)


def pieces(ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """The text of each token; together they are the whole text."""
    if not ids:
        return []
    stream = tokenizer.stream()
    texts = [stream.push([id]) for id in ids]
    return [*texts[:-1], texts[-1] + stream.finish()]


def _divergence(answerer: Answerer, timed: TimedAnswer, plain: TimedAnswer) -> RowDivergence | None:
    """Position, top-2 logit gap and outcome of the first difference; None for equal answers."""
    engine, message = answerer.engine, timed.question.message
    divergence = first_divergence(
        engine, message, plain.answer, timed.answer, answerer.options, plain.before
    )
    if divergence is None:
        return None
    outcome = divergence.outcome(near_tie(engine, answerer.options))
    return {"position": divergence.position, "margin": divergence.gap, "outcome": outcome}
