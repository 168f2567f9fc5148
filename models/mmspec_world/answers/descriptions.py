"""Descriptions of each kind of drawing."""

import random

from mmspec_world.answers.phrasing import (
    an,
    join_with_and,
    place_phrase,
    say,
    say_sentence,
    things_at_places,
)
from mmspec_world.scenes.charts import Bar, Chart
from mmspec_world.scenes.palette import NUMBERS
from mmspec_world.scenes.scene import Scene
from mmspec_world.scenes.words import Word

Drawing = Scene | Chart | Word

ALL_THINGS = (
    "[the|this] [picture|image|drawing] [shows|contains|has] {things}",
    "[in the picture|here|in this image], [I can see|there is|we find] {things}",
    "[I can see|I see|there is] {things}[ in the picture|]",
    "what [we see|is drawn] here is {things}",
)
ONE_THING = (
    "{there} [there is|I can see|I find] {thing}",
    "{thing} [is drawn|sits|stands|appears] {there}",
    "{thing} [can be seen|can be found] {there}",
)
BACKGROUND_SENTENCES = (
    "[the background is {b}|the background of the picture is {b}]",
    "everything [is drawn|lies|is placed] on a {b} background",
    "[all of this|this] [is|stands] on a {b} background",
)
REACHES = "[reaches|has a value of|stands at]"
READ_BARS = (
    "from left to right, {bars}",
    "the chart has {n} bars: {bars}",
    "reading the [chart|bars] from the left, {bars}",
    "[I look at|I compare] the {n} bars: {bars}",
)
SPELLED_WORD = (
    "the letters [from left to right |]are {letters}",
    "[there are|I see] {n} letters: {letters}",
    "[I spell|spelled out, it is] {letters}",
    "it is written in {c} letters: {letters}",
)


def describe(rng: random.Random, drawing: Drawing) -> str:
    """Describe everything in a drawing except its background."""
    match drawing:
        case Scene():
            return inventory(rng, drawing) if rng.random() < 0.7 else tour(rng, drawing)
        case Chart():
            return bars_in_words(rng, drawing)
        case Word():
            return spelling(rng, drawing)


def inventory(rng: random.Random, scene: Scene) -> str:
    """Name all things with their places in one sentence, in reading order."""
    things = things_at_places(rng, scene.things)
    return say_sentence(rng, ALL_THINGS, things=things)


def tour(rng: random.Random, scene: Scene) -> str:
    """Name each thing with its place, in a sentence of its own."""
    return " ".join(
        say_sentence(rng, ONE_THING, there=place_phrase(rng, thing.place), thing=an(thing.name))
        for thing in scene.things
    )


def background_sentence(rng: random.Random, background: str) -> str:
    """Return a sentence that names the background."""
    return say_sentence(rng, BACKGROUND_SENTENCES, b=background)


def bar_in_words(rng: random.Random, bar: Bar) -> str:
    """Name a bar and its value: "red bar reaches three"."""
    return say(rng, f"{{c}} bar {REACHES} {{n}}", c=bar.colour, n=bar.number)


def bars_in_words(rng: random.Random, chart: Chart) -> str:
    """Return a sentence that gives the bars of a chart from left to right."""
    bars = join_with_and([f"the {bar_in_words(rng, bar)}" for bar in chart.bars])
    return say_sentence(rng, READ_BARS, n=NUMBERS[len(chart.bars) - 1], bars=bars)


def spelling(rng: random.Random, word: Word) -> str:
    """Return a sentence that spells a word letter by letter."""
    return say_sentence(
        rng, SPELLED_WORD, letters=word.spelled, c=word.colour, n=NUMBERS[len(word.text) - 1]
    )
