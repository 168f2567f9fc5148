"""Answers to queries, and descriptions with the facts that they state."""

import random

from mmspec_world.answers.descriptions import Drawing, background_sentence, bar_in_words, describe
from mmspec_world.answers.phrasing import say, say_sentence, sentence, things_at_places
from mmspec_world.answers.statements import (
    background_fact,
    bar_fact,
    ink_fact,
    thing_colour,
    thing_place,
    word_fact,
)
from mmspec_world.facts import Fact, Query
from mmspec_world.scenes.charts import Chart
from mmspec_world.scenes.palette import NUMBERS
from mmspec_world.scenes.scene import Scene
from mmspec_world.scenes.words import Word


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
    body = join_sentences(_kind(rng, drawing), describe(rng, drawing), _extra(rng, drawing))
    ground = background_sentence(rng, drawing.background)
    text = join_sentences(body, ground) if rng.random() < 0.7 else join_sentences(ground, body)
    facts = (*_facts(rng, drawing), background_fact(drawing.background))
    return join_sentences(text, maybe_sentence(rng, 0.4, "description.mood")), facts


def short_description(rng: random.Random, drawing: Drawing) -> tuple[str, tuple[Fact, ...]]:
    """Describe a drawing in one sentence; also return the facts that it states."""
    text = say_sentence(
        rng, "caption.sentence", things=_short_text(rng, drawing), b=drawing.background
    )
    return text, (*_facts(rng, drawing, short=True), background_fact(drawing.background))


def maybe_sentence(rng: random.Random, chance: float, phrase: str) -> str:
    """Return the phrase as a sentence with probability `chance`, else an empty text."""
    return say_sentence(rng, phrase) if rng.random() < chance else ""


def join_sentences(*parts: str) -> str:
    """Join sentences with spaces; empty ones are left out."""
    return " ".join(filter(None, parts))


def _kind(rng: random.Random, drawing: Drawing) -> str:
    number = ""
    if isinstance(drawing, Scene):
        count = len(drawing.things)
        number = f"{NUMBERS[count - 1]} {'shape' if count == 1 else 'shapes'}"
    return say_sentence(rng, f"description.{type(drawing).__name__.lower()}", n=number)


def _extra(rng: random.Random, drawing: Drawing) -> str:
    """Name the tallest bar of a chart, or a word and its colour; empty for a scene."""
    match drawing:
        case Chart():
            return say_sentence(rng, "description.tallest", c=drawing.tallest.colour)
        case Word():
            return say_sentence(rng, "description.text", w=drawing.text, c=drawing.colour)
        case Scene():
            return ""


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
