"""The facts that can be stated about a picture, and the forms that state them."""

import random

from mmspec.bench.world.charts import Bar
from mmspec.bench.world.facts import Fact
from mmspec.bench.world.palette import BACKGROUNDS, COLOURS, NUMBERS, PLACES, SHAPES
from mmspec.bench.world.phrasing import place_pattern
from mmspec.bench.world.scene import Thing
from mmspec.bench.world.words import Word, written_word

SEEN = "(?: is| sits| stands| is drawn| appears| can be seen| can be found)?"
FOUND = "(?: corner| side)?,? (?:there is|I can see|I find) an?"


def thing_colour(thing: Thing) -> Fact:
    """State the colour of a thing known by its shape."""
    shape = thing.shape
    forms = (
        rf"{shape}(?: in the picture)? is {{}}",
        rf"colour of the {shape} is {{}}",
        rf"{{}} {shape}",
    )
    return Fact("colour", thing.colour, tuple(COLOURS), forms)


def thing_shape(thing: Thing) -> Fact:
    """State the shape of a thing known by its colour."""
    forms = (rf"{thing.colour} (?:object|shape|thing) is an? {{}}", rf"{thing.colour} {{}}")
    return Fact("shape", thing.shape, SHAPES, forms)


def thing_place(thing: Thing) -> Fact:
    """State the place of a thing known by its shape."""
    place = place_pattern()
    forms = (rf"{thing.shape}{SEEN} {place}", rf"{place}{FOUND} \w+ {thing.shape}")
    return Fact("position", PLACES[thing.place], PLACES, forms)


def background_fact(background: str) -> Fact:
    """State the background."""
    forms = (r"background(?: of the picture)? is {}", r"{} background")
    return Fact("background", background, tuple(BACKGROUNDS), forms)


def bar_fact(bar: Bar) -> Fact:
    """State the value of a bar."""
    form = rf"{bar.colour} bar (?:reaches|has a value of|stands at) {{}}"
    return Fact("chart", bar.number, NUMBERS, (form,))


def word_fact(rng: random.Random, word: Word) -> Fact:
    """State what is written."""
    others = {written_word(rng).text for _ in range(7)} - {word.text}
    return Fact("word", word.text, (word.text, *sorted(others)), (r"(?:word is|says|reads) {}",))


def ink_fact(word: Word) -> Fact:
    """State the colour of the letters."""
    forms = (r"letters are {}", r"written in {}", r"{} letters")
    return Fact("colour", word.colour, tuple(COLOURS), forms)
