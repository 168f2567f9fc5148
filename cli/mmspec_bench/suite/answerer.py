"""Times one method's answers to one sample, and makes their rows.

Every sample opens a new conversation, without vision features and captions computed by other
methods.  Within it the caches stay, as in a chat: a later turn computes only what is new.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mmspec.chat.answer import Answer
from mmspec.chat.engine import Engine
from mmspec.chat.memory import Memory
from mmspec.chat.options import Options
from mmspec.decoding.statistics import Round
from mmspec.diagnostics.check import first_divergence, near_tie
from mmspec.drafters.views import LOOKUP, WITHOUT_MODEL
from mmspec.prompt.conversation import Message, Turn
from mmspec.prompt.tokenizer import Tokenizer
from mmspec_bench.suite.drafts import drafted_share
from mmspec_bench.suite.methods import Method
from mmspec_bench.suite.rows import PLAIN, AnswerRow, RoundRow, RowDivergence
from mmspec_bench.suite.sources import SuiteSample

DECIMALS = 7
"""Number of decimals of the seconds in a row, the precision of clocks."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """A method and the models that it uses."""

    method: Method
    engine: Engine
    options: Options
    drafted_share: float
    """Parameters read for a drafted token over the target's; 0 without a model."""

    def answer(self, questions: Sequence[Message]) -> "Transcript":
        """Answer all questions of a new conversation; raises ContextError if one does not fit."""
        self.engine.forget()
        chat = self.engine.chat(self.options)
        answers = [chat.send(question).finish() for question in questions]
        return Transcript(self, chat.conversation.turns, answers)

    def with_memory(self) -> "Answerer":
        """The answerer, whose lookup finds places in its answers to earlier samples too."""
        if not self.method.drafting.endswith(LOOKUP.spec):
            return self
        memory = Memory(self.engine.target.tokenizer.size)
        return replace(self, engine=replace(self.engine, memory=memory))


class Transcript(NamedTuple):
    """A conversation, with its answers."""

    answerer: Answerer
    turns: Sequence[Turn]
    answers: list[Answer]


def open_answerer(method: Method, engine: Engine, options: Options) -> Answerer:
    """The answerer of a method; raises UsageError if the models cannot do it."""
    options = method.options(options)
    engine.chat(options)
    share = 0.0 if method.drafting in WITHOUT_MODEL else drafted_share(engine)
    return Answerer(method, engine, options, share)


def answer_row(
    sample: SuiteSample, turn: int, transcript: Transcript, plain: Transcript | None
) -> AnswerRow:
    """The row of one answer; plain: the conversation decoded plainly, if it was."""
    answer, answerer = transcript.answers[turn], transcript.answerer
    engine, options = answerer.engine, answerer.options
    statistics = answer.statistics
    turns = transcript.turns[: turn + 1]
    pictures = [picture.digest for each in turns for picture in each.pictures]
    row = AnswerRow(
        sample=sample.name,
        task=sample.task,
        images=len(pictures),
        turn=turn,
        method=answerer.method.name,
        token_ids=list(answer.token_ids),
        pieces=_pieces(answer.token_ids, engine.target.tokenizer),
        prompt_tokens=statistics.prompt_tokens,
        finish_reason=answer.finish_reason,
        rounds=[_round_row(round_) for round_ in answer.rounds],
        branches=[str(branch) for branch in answer.drafting.branches],
        seconds={stage: round(s, DECIMALS) for stage, s in statistics.seconds.items()},
        peak_memory_bytes=statistics.peak_memory_bytes,
        notes=list(answer.notes),
        drafted_share=answerer.drafted_share,
        first_image=next(iter(pictures), None),
    )
    if plain is None or row.method == PLAIN:
        return row
    *before, last = turns
    if before != [*plain.turns[:turn]]:
        return replace(row, notes=[*row.notes, "not compared: an earlier answer differs"])
    answers = plain.answers[turn], answer
    divergence = first_divergence(engine, last.question, *answers, options, before)
    if divergence is None:
        return replace(row, identical=True)
    outcome = divergence.outcome(near_tie(engine, options))
    entry = RowDivergence(position=divergence.position, margin=divergence.gap, outcome=outcome)
    return replace(row, identical=False, divergence=entry)


def _round_row(round_: Round) -> RoundRow:
    draft, verify = (round(s, DECIMALS) for s in (round_.draft_seconds, round_.verify_seconds))
    counts = round_.drafted, round_.accepted, len(round_.tokens)
    return RoundRow(*counts, draft, verify, round_.depth, round_.by_lookup)


def _pieces(ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """The text of each token; together they are the whole text."""
    if not ids:
        return []
    stream = tokenizer.stream()
    texts = [stream.push([id]) for id in ids]
    return [*texts[:-1], texts[-1] + stream.finish()]
