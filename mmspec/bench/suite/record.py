"""An answer as a row, and how it compares with plain decoding's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mmspec.bench.suite.arms import MethodArm, Said
from mmspec.bench.suite.items import Item, Question
from mmspec.bench.suite.rows import PLAIN, RoundRow, Row
from mmspec.bench.world import judge
from mmspec.check import NEAR_TIES, common_prefix, diverged, logits_after
from mmspec.statistics import Round
from mmspec.tokenizer import Tokenizer

STAGES = ("vision", "caption", "prefill", "draft", "verify", "decode", "total")
DIGITS = 7
"""Of seconds in a row: no clock knows more."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One turn of one sample."""

    item: Item
    questions: Sequence[Question]
    turn: int

    @property
    def question(self) -> Question:
        """What is asked at this turn."""
        return self.questions[self.turn]

    @property
    def images(self) -> int:
        """Images shown so far."""
        return sum(len(each.message.pictures) for each in self.questions[: self.turn + 1])


def row_of(asked: Asked, arm: MethodArm, said: Said, position: int) -> Row:
    """The row of one answer, not yet compared with plain decoding's.

    position: the method's place in the order in which this sample was answered.
    """
    answer, told = said.answer, said.answer.statistics
    facts = asked.question.facts
    right = sum(judge(fact, answer.text) for fact in facts)
    return Row(
        sample=asked.item.name,
        task=asked.item.task,
        images=asked.images,
        turn=asked.turn,
        method=arm.method.name,
        position=position,
        token_ids=list(answer.token_ids),
        pieces=pieces(answer.token_ids, arm.engine.target.tokenizer),
        prompt_tokens=told.prompt_tokens,
        finish_reason="refused" if said.refused else answer.finish_reason,
        rounds=[_round(each) for each in answer.rounds],
        branches=[str(branch) for branch in answer.drafting.branches],
        seconds={stage: round(told.seconds[stage], DIGITS) for stage in STAGES}
        | {"first_token": round(said.first_token_seconds, DIGITS)},
        peak_memory_bytes=told.peak_memory_bytes,
        weights=_weights(answer.rounds) if arm.method.adaptive else None,
        facts={"asked": len(facts), "right": right} if facts else None,
        notes=[*answer.notes, said.refused] if said.refused else answer.notes,
    )


def _weights(rounds: Sequence[Round]) -> list[list[float]]:
    """[rounds, branches], empty for a round in which nothing was drafted."""
    return [list(each.weights) for each in rounds]


def _round(each: Round) -> RoundRow:
    draft, verify = round(each.draft_seconds, DIGITS), round(each.verify_seconds, DIGITS)
    levels = each.depth if each.depth != each.drafted else None
    return RoundRow(each.drafted, each.accepted, len(each.tokens), draft, verify, levels)


def pieces(ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """The text that each token adds; joined, the whole text."""
    if not ids:
        return []
    stream = tokenizer.stream()
    texts = [stream.push([id]) for id in ids]
    return [*texts[:-1], texts[-1] + stream.finish()]


def compared(row: Row, asked: Asked, arm: MethodArm, said: Said, plain: Said) -> Row:
    """The row with what plain decoding of the same turn says of it.

    Where an earlier answer of the conversation differed, this one answers something else and is
    not compared; nor are probes, whose question or model is another.
    """
    if row.method == PLAIN or arm.method.probe:
        return row
    if said.before != plain.before:
        return replace(row, notes=[*row.notes, "not compared: an earlier answer differs"])
    identical = said.answer.token_ids == plain.answer.token_ids
    divergence = None if identical else _divergence(asked, arm, said, plain)
    return replace(row, identical=identical, divergence=divergence)


def _divergence(asked: Asked, arm: MethodArm, said: Said, plain: Said) -> dict[str, Any]:
    """Where the two answers part, by how little, and whether rounding explains it."""
    first, second = plain.answer.token_ids, said.answer.token_ids
    shared = first[: common_prefix(first, second)]
    target = arm.engine.target
    logits = logits_after(arm.engine, asked.question.message, shared, plain.before)
    found = diverged(first, second, logits, target.tokenizer)
    outcome = found.outcome(NEAR_TIES[target.model.dtype])
    return {"position": found.position, "margin": found.gap, "outcome": outcome}
