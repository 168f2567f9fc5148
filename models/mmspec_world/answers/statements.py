"""Facts about a drawing, with the forms in which answers state them."""

import random

from mmspec_world.answers.phrasing import place_pattern
from mmspec_world.facts import Fact
from mmspec_world.scenes.charts import Bar
from mmspec_world.scenes.palette import BACKGROUNDS, COLOURS, NUMBERS, PLACES, SHAPES
from mmspec_world.scenes.scene import Thing
from mmspec_world.scenes.words import Word, written_word

LOCATION_VERBS = "(?: is| sits| stands| is drawn| appears| can be seen| can be found)?"
EXISTENCE_PHRASES = "(?: corner| side)?,? (?:there is|I can see|I find) an?"


def thing_fact(category: str, thing: Thing, trait: str, *forms: str) -> Fact:
    """Return a trait of a thing, "colour", "shape" or "place", as a fact of a category."""
    options = {"colour": tuple(COLOURS), "shape": SHAPES, "place": PLACES}
    return Fact(category, thing.traits[trait], options[trait], forms)


def thing_colour(thing: Thing) -> Fact:
    """Return the colour of a thing as a fact; answers identify the thing by its shape."""
    shape = thing.shape
    forms = (
        rf"{shape}(?: in the picture)? is {{}}",
        rf"colour of the {shape} is {{}}",
        rf"{{}} {shape}",
    )
    return thing_fact("colour", thing, "colour", *forms)


def thing_shape(thing: Thing) -> Fact:
    """Return the shape of a thing as a fact; answers identify the thing by its colour."""
    forms = (rf"{thing.colour} (?:object|shape|thing) is an? {{}}", rf"{thing.colour} {{}}")
    return thing_fact("shape", thing, "shape", *forms)


def thing_place(thing: Thing) -> Fact:
    """Return the place of a thing as a fact; answers identify the thing by its shape."""
    place = place_pattern()
    forms = (
        rf"{thing.shape}{LOCATION_VERBS} {place}",
        rf"{place}{EXISTENCE_PHRASES} \w+ {thing.shape}",
    )
    return thing_fact("position", thing, "place", *forms)


def background_fact(background: str) -> Fact:
    """Return the colour of the background as a fact."""
    forms = (r"background(?: of the picture)? is {}", r"{} background")
    return Fact("background", background, tuple(BACKGROUNDS), forms)


def bar_fact(bar: Bar) -> Fact:
    """Return the value of a bar as a fact."""
    form = rf"{bar.colour} bar (?:reaches|has a value of|stands at) {{}}"
    return Fact("chart", bar.number, NUMBERS, (form,))


def word_fact(rng: random.Random, word: Word) -> Fact:
    """Return the written word as a fact; the other options are random words."""
    others = {written_word(rng).text for _ in range(7)} - {word.text}
    return Fact("word", word.text, (word.text, *sorted(others)), (r"(?:word is|says|reads) {}",))


def ink_fact(word: Word) -> Fact:
    """Return the colour of the letters as a fact."""
    forms = (r"letters are {}", r"written in {}", r"{} letters")
    return Fact("colour", word.colour, tuple(COLOURS), forms)
