"""Answers: explanations built around an ask, and descriptions with the facts they state."""

import random
from collections.abc import Sequence

from mmspec.bench.world.asks import Ask
from mmspec.bench.world.charts import Chart
from mmspec.bench.world.describing import Picture, backdrop, bar_in_words, describe
from mmspec.bench.world.facts import Fact
from mmspec.bench.world.palette import NUMBERS
from mmspec.bench.world.phrasing import listed, placed, say, sentence
from mmspec.bench.world.scene import Scene
from mmspec.bench.world.statements import (
    background_fact,
    bar_fact,
    ink_fact,
    thing_colour,
    thing_place,
    word_fact,
)
from mmspec.bench.world.words import Word

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
WORD_TOLD = "[the letters are {c} and the word is {w}|the word is {w}, written in {c}]"
CAPTIONS = (
    "{things} on a {b} background",
    "[a picture of|a drawing of|a drawing with|the image shows] {things} on a {b} background",
    "on a {b} background, [there is|we see] {things}",
    "a {b} background with {things}",
)


def explain(rng: random.Random, ask: Ask) -> str:
    """Answer an ask with its reasons: reasons first, or the answer first where it can be seen."""
    if ask.derived or rng.random() < 0.65:
        parts = [maybe(rng, 0.4, OPENINGS), ask.evidence, conclude(rng, ask)]
    else:
        verdict = f"{ask.verdict}, " if ask.verdict else ""
        parts = [sentence(verdict + ask.clause), ask.evidence]
    return joined(*parts, maybe(rng, 0.3, CLOSINGS))


def conclude(rng: random.Random, ask: Ask) -> str:
    """Answer an ask from what has been described, step by step where it takes steps."""
    links = VERDICT_LINKS if ask.verdict else LINKS
    return joined(ask.steps, sentence(say(rng, links, c=ask.clause, v=ask.verdict)))


def reply(rng: random.Random, ask: Ask) -> str:
    """Answer an ask as in a chat, mostly in one sentence where the answer can be seen."""
    if ask.derived or rng.random() < 0.3:
        return explain(rng, ask)
    clause = sentence(say(rng, SHORT_LINKS, c=ask.clause))
    return joined(clause, ask.evidence if rng.random() < 0.25 else "")


def detailed(rng: random.Random, picture: Picture) -> tuple[str, tuple[Fact, ...]]:
    """Describe a picture at length, with the facts that the description states."""
    body = joined(_kind(rng, picture), describe(rng, picture), _extra(rng, picture))
    ground = backdrop(rng, picture.background)
    text = joined(body, ground) if rng.random() < 0.7 else joined(ground, body)
    facts = (*_stated(rng, picture), background_fact(picture.background))
    return joined(text, maybe(rng, 0.4, MOODS)), facts


def short(rng: random.Random, picture: Picture) -> tuple[str, tuple[Fact, ...]]:
    """Describe a picture in a sentence, with the facts that the sentence states."""
    text = sentence(say(rng, CAPTIONS, things=_gist(rng, picture), b=picture.background))
    return text, (*_gist_facts(rng, picture), background_fact(picture.background))


def maybe(rng: random.Random, chance: float, templates: Sequence[str]) -> str:
    """Say one of the templates as a sentence, or nothing."""
    return sentence(say(rng, templates)) if rng.random() < chance else ""


def joined(*parts: str) -> str:
    """Join the sentences that are not empty."""
    return " ".join(filter(None, parts))


def _kind(rng: random.Random, picture: Picture) -> str:
    number = ""
    if isinstance(picture, Scene):
        count = len(picture.things)
        number = f"{NUMBERS[count - 1]} {'shape' if count == 1 else 'shapes'}"
    return sentence(say(rng, KINDS[type(picture)], n=number))


def _extra(rng: random.Random, picture: Picture) -> str:
    """Add what the plain description of a chart or a word leaves out."""
    match picture:
        case Chart():
            tallest = max(picture.bars, key=lambda bar: bar.value)
            return sentence(say(rng, "the tallest bar is {c}", c=tallest.colour))
        case Word():
            return sentence(say(rng, WORD_TOLD, w=picture.text, c=picture.colour))
        case Scene():
            return ""


def _stated(rng: random.Random, picture: Picture) -> tuple[Fact, ...]:
    """Collect the facts that a detailed description states, background apart."""
    match picture:
        case Scene():
            singles = picture.shape_singles()
            return tuple(f(thing) for thing in singles for f in (thing_colour, thing_place))
        case Chart():
            return tuple(map(bar_fact, picture.bars))
        case Word():
            return word_fact(rng, picture), ink_fact(picture)


def _gist(rng: random.Random, picture: Picture) -> str:
    match picture:
        case Scene():
            return listed([placed(rng, thing) for thing in picture.things])
        case Chart():
            bar = max(picture.bars, key=lambda bar: bar.value)
            count = NUMBERS[len(picture.bars) - 1]
            template = "a [bar chart|chart] of {n} bars whose {bar}"
            return say(rng, template, n=count, bar=bar_in_words(rng, bar))
        case Word():
            template = "a [card|sign] that [says|reads] {w} in {c} letters"
            return say(rng, template, w=picture.text, c=picture.colour)


def _gist_facts(rng: random.Random, picture: Picture) -> tuple[Fact, ...]:
    match picture:
        case Scene():
            return tuple(map(thing_colour, picture.shape_singles()))
        case Chart():
            return (bar_fact(max(picture.bars, key=lambda bar: bar.value)),)
        case Word():
            return word_fact(rng, picture), ink_fact(picture)
