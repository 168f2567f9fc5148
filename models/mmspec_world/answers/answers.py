"""Answers to queries, and descriptions with the facts that they state."""

import random
from collections.abc import Sequence

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

OPENINGS = (
    "[let me|I will] look at the picture[ first|]",
    "to [answer this|find out], I look [closely |]at the picture",
    "the picture tells us [the answer|this]",
    "this can be [read from|seen in] the picture",
    "[I start with|first I look at] what [is drawn|can be seen]",
)
LINKS = (
    "so {c}",
    "[therefore|this means that|this shows that] {c}",
    "[from this I know that|as a result,] {c}",
)
VERDICT_LINKS = (
    "so {v}, {c}",
    "[therefore|so] the answer is {v}: {c}",
    "[this means {v}|that makes it a {v}], because {c}",
)
CLOSINGS = (
    "[that is|this is] [clear|easy to see][ from the picture|]",
    "[the picture|the drawing] leaves no doubt about [it|this]",
    "nothing [else |]in the picture speaks against it",
    "I am [quite |very |]sure [about this|of it]",
)
SHORT_LINKS = ("{c}", "{c}", "[I think|as far as I can see,|it looks like] {c}", "[well|sure], {c}")
MOODS = (
    "the [picture|drawing] is [simple and clear|plain and tidy|easy to read]",
    "[the colours are|everything is] [bright and clear|easy to tell apart]",
    "[there is nothing else|nothing else is] in the picture",
)
KINDS: dict[type, Sequence[str]] = {
    Scene: (
        "[this is|here we see] a [simple|small|plain] drawing with {n}",
        "the [picture|image] shows {n}",
    ),
    Chart: ("[this is|here we see|the image shows] a bar chart[ with coloured bars|]",),
    Word: ("[this is|here we see|the image shows] a [card|sign] with [a word|some text] on it",),
}
WORD_SENTENCE = "[the letters are {c} and the word is {w}|the word is {w}, written in {c}]"
CAPTIONS = (
    "{things} on a {b} background",
    "[a picture of|a drawing of|a drawing with|the image shows] {things} on a {b} background",
    "on a {b} background, [there is|we see] {things}",
    "a {b} background with {things}",
)


def explain(rng: random.Random, query: Query) -> str:
    """Answer with reasons: before an answer that needs reasoning, before or after any other."""
    if query.derived or rng.random() < 0.65:
        parts = [maybe_sentence(rng, 0.4, OPENINGS), query.evidence, conclude(rng, query)]
    else:
        verdict = f"{query.verdict}, " if query.verdict else ""
        parts = [sentence(verdict + query.clause), query.evidence]
    return join_sentences(*parts, maybe_sentence(rng, 0.3, CLOSINGS))


def conclude(rng: random.Random, query: Query) -> str:
    """State the steps and the answer, without the evidence."""
    links = VERDICT_LINKS if query.verdict else LINKS
    return join_sentences(query.steps, say_sentence(rng, links, c=query.clause, v=query.verdict))


def reply(rng: random.Random, query: Query) -> str:
    """Answer as in a chat: mostly one sentence, or with reasons if the answer is derived."""
    if query.derived or rng.random() < 0.3:
        return explain(rng, query)
    clause = say_sentence(rng, SHORT_LINKS, c=query.clause)
    return join_sentences(clause, query.evidence if rng.random() < 0.25 else "")


def long_description(rng: random.Random, drawing: Drawing) -> tuple[str, tuple[Fact, ...]]:
    """Describe a drawing in several sentences; also return the facts that they state."""
    body = join_sentences(_kind(rng, drawing), describe(rng, drawing), _extra(rng, drawing))
    ground = background_sentence(rng, drawing.background)
    text = join_sentences(body, ground) if rng.random() < 0.7 else join_sentences(ground, body)
    facts = (*_long_facts(rng, drawing), background_fact(drawing.background))
    return join_sentences(text, maybe_sentence(rng, 0.4, MOODS)), facts


def short_description(rng: random.Random, drawing: Drawing) -> tuple[str, tuple[Fact, ...]]:
    """Describe a drawing in one sentence; also return the facts that it states."""
    text = say_sentence(rng, CAPTIONS, things=_short_text(rng, drawing), b=drawing.background)
    return text, (*_short_facts(rng, drawing), background_fact(drawing.background))


def maybe_sentence(rng: random.Random, chance: float, templates: Sequence[str]) -> str:
    """Return a sentence from the templates with probability `chance`, else an empty text."""
    return say_sentence(rng, templates) if rng.random() < chance else ""


def join_sentences(*parts: str) -> str:
    """Join sentences with spaces; empty ones are left out."""
    return " ".join(filter(None, parts))


def _kind(rng: random.Random, drawing: Drawing) -> str:
    number = ""
    if isinstance(drawing, Scene):
        count = len(drawing.things)
        number = f"{NUMBERS[count - 1]} {'shape' if count == 1 else 'shapes'}"
    return say_sentence(rng, KINDS[type(drawing)], n=number)


def _extra(rng: random.Random, drawing: Drawing) -> str:
    """A sentence on a chart or word that `describe` leaves out."""
    match drawing:
        case Chart():
            tallest = max(drawing.bars, key=lambda bar: bar.value)
            return say_sentence(rng, "the tallest bar is {c}", c=tallest.colour)
        case Word():
            return say_sentence(rng, WORD_SENTENCE, w=drawing.text, c=drawing.colour)
        case Scene():
            return ""


def _long_facts(rng: random.Random, drawing: Drawing) -> tuple[Fact, ...]:
    """Return the facts that a long description states, without the background."""
    match drawing:
        case Scene():
            singles = drawing.shape_singles()
            return tuple(f(thing) for thing in singles for f in (thing_colour, thing_place))
        case Chart():
            return tuple(map(bar_fact, drawing.bars))
        case Word():
            return word_fact(rng, drawing), ink_fact(drawing)


def _short_text(rng: random.Random, drawing: Drawing) -> str:
    match drawing:
        case Scene():
            return things_at_places(rng, drawing.things)
        case Chart():
            bar = max(drawing.bars, key=lambda bar: bar.value)
            count = NUMBERS[len(drawing.bars) - 1]
            template = "a [bar chart|chart] of {n} bars whose {bar}"
            return say(rng, template, n=count, bar=bar_in_words(rng, bar))
        case Word():
            template = "a [card|sign] that [says|reads] {w} in {c} letters"
            return say(rng, template, w=drawing.text, c=drawing.colour)


def _short_facts(rng: random.Random, drawing: Drawing) -> tuple[Fact, ...]:
    match drawing:
        case Scene():
            return tuple(map(thing_colour, drawing.shape_singles()))
        case Chart():
            return (bar_fact(max(drawing.bars, key=lambda bar: bar.value)),)
        case Word():
            return word_fact(rng, drawing), ink_fact(drawing)
