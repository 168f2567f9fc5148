"""Answers to queries, and descriptions of drawings."""

import random
from collections.abc import Iterator

from mmspec_world.drawing import NUMBERS
from mmspec_world.facts import Fact, Query
from mmspec_world.pictures import Chart, Drawing, Scene, Word
from mmspec_world.wording import (
    background_fact,
    bar_fact,
    bar_in_words,
    describe,
    ink_fact,
    join_sentences,
    maybe_sentence,
    say,
    say_sentence,
    sentence,
    thing_colour,
    thing_place,
    things_at_places,
    word_fact,
)


def explain(rng: random.Random, query: Query) -> str:
    """Answer with the evidence: before a derived answer, before or after any other."""
    if query.derived or rng.random() < 0.65:
        parts = [maybe_sentence(rng, 0.4, "answer.opening"), query.evidence, conclude(rng, query)]
    else:
        verdict = f"{query.verdict}, " if query.verdict else ""
        parts = [sentence(verdict + query.clause), query.evidence]
    return join_sentences(*parts, maybe_sentence(rng, 0.3, "answer.closing"))


def conclude(rng: random.Random, query: Query) -> str:
    """State the steps and the answer, without the evidence."""
    link = "answer.verdict" if query.verdict else "answer.conclusion"
    return join_sentences(query.steps, say_sentence(rng, link, c=query.clause, v=query.verdict))


def reply(rng: random.Random, query: Query) -> str:
    """Answer as in a chat: mostly one sentence, or with reasons if the answer is derived."""
    if query.derived or rng.random() < 0.3:
        return explain(rng, query)
    clause = say_sentence(rng, "answer.short", c=query.clause)
    return join_sentences(clause, query.evidence if rng.random() < 0.25 else "")


def long_description(rng: random.Random, drawing: Drawing) -> tuple[str, tuple[Fact, ...]]:
    """Describe a drawing in several sentences; also return the facts that they state."""
    body = join_sentences(*_sentences(rng, drawing))
    ground = say_sentence(rng, "description.background", b=drawing.background)
    text = join_sentences(body, ground) if rng.random() < 0.7 else join_sentences(ground, body)
    facts = (*_facts(rng, drawing), background_fact(drawing.background))
    return join_sentences(text, maybe_sentence(rng, 0.4, "description.mood")), facts


def short_description(rng: random.Random, drawing: Drawing) -> tuple[str, tuple[Fact, ...]]:
    """Describe a drawing in one sentence; also return the facts that it states."""
    text = say_sentence(
        rng, "caption.sentence", things=_short_text(rng, drawing), b=drawing.background
    )
    return text, (*_facts(rng, drawing, short=True), background_fact(drawing.background))


def _sentences(rng: random.Random, drawing: Drawing) -> Iterator[str]:
    """Yield the kind of drawing, all that it shows, and the tallest bar or the word."""
    match drawing:
        case Scene(things=things):
            number = f"{NUMBERS[len(things) - 1]} {'shapes' if len(things) > 1 else 'shape'}"
            yield say_sentence(rng, "description.scene", n=number)
            yield describe(rng, drawing)
        case Chart():
            yield say_sentence(rng, "description.chart")
            yield describe(rng, drawing)
            yield say_sentence(rng, "description.tallest", c=drawing.tallest.colour)
        case Word():
            yield say_sentence(rng, "description.word")
            yield describe(rng, drawing)
            yield say_sentence(rng, "description.text", w=drawing.text, c=drawing.colour)


def _facts(rng: random.Random, drawing: Drawing, *, short: bool = False) -> tuple[Fact, ...]:
    """Return the facts that a long or short description states, without the background."""
    match drawing:
        case Scene():
            stated = (thing_colour,) if short else (thing_colour, thing_place)
            return tuple(fact(thing) for thing in drawing.singles("shape") for fact in stated)
        case Chart():
            return tuple(map(bar_fact, [drawing.tallest] if short else drawing.bars))
        case Word():
            return word_fact(rng, drawing), ink_fact(drawing)


def _short_text(rng: random.Random, drawing: Drawing) -> str:
    match drawing:
        case Scene():
            return things_at_places(rng, drawing.things)
        case Chart():
            count, bar = NUMBERS[len(drawing.bars) - 1], bar_in_words(rng, drawing.tallest)
            return say(rng, "caption.chart", n=count, bar=bar)
        case Word():
            return say(rng, "caption.word", w=drawing.text, c=drawing.colour)
