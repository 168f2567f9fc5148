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
    return say_sentence(rng, "description.all_things", things=things)


def tour(rng: random.Random, scene: Scene) -> str:
    """Name each thing with its place, in a sentence of its own."""
    return " ".join(
        say_sentence(
            rng, "description.one_thing", there=place_phrase(rng, thing.place), thing=an(thing.name)
        )
        for thing in scene.things
    )


def background_sentence(rng: random.Random, background: str) -> str:
    """Return a sentence that names the background."""
    return say_sentence(rng, "description.background", b=background)


def bar_in_words(rng: random.Random, bar: Bar) -> str:
    """Name a bar and its value: "red bar reaches three"."""
    return say(rng, "description.bar", c=bar.colour, n=bar.number)


def bars_in_words(rng: random.Random, chart: Chart) -> str:
    """Return a sentence that gives the bars of a chart from left to right."""
    bars = join_with_and([f"the {bar_in_words(rng, bar)}" for bar in chart.bars])
    return say_sentence(rng, "description.bars", n=NUMBERS[len(chart.bars) - 1], bars=bars)


def spelling(rng: random.Random, word: Word) -> str:
    """Return a sentence that spells a word letter by letter."""
    return say_sentence(
        rng,
        "description.letters",
        letters=word.spelled,
        c=word.colour,
        n=NUMBERS[len(word.text) - 1],
    )
