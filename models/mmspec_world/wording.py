"""The wording of texts: phrases with random choices, facts in sentences, descriptions."""

import random
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from mmspec_world.drawing import BACKGROUNDS, COLOURS, NUMBERS, PLACES, SHAPES
from mmspec_world.facts import Fact
from mmspec_world.pictures import Bar, Chart, Scene, Thing, Word, written_word

_CHOICE = re.compile(r"\[([^\[\]]*)\]")


@cache
def _phrases() -> dict[str, dict[str, str | list[str]]]:
    return tomllib.loads(files(__package__).joinpath("phrases.toml").read_text(encoding="utf-8"))


def say(rng: random.Random, phrase: str, **slots: str) -> str:
    """Choose a text of the phrase `section.name` in phrases.toml, and fill in `slots` by name."""
    section, _, name = phrase.partition(".")
    texts = _phrases()[section][name]
    text = texts if isinstance(texts, str) else rng.choice(texts)
    while _CHOICE.search(text):
        text = _CHOICE.sub(lambda match: rng.choice(match.group(1).split("|")), text)
    return " ".join(text.format(**slots).split())


def say_sentence(rng: random.Random, phrase: str, **slots: str) -> str:
    """Fill in a phrase as `say` does, and return it as a sentence."""
    return sentence(say(rng, phrase, **slots))


def sentence(text: str) -> str:
    """Capitalise the first letter and end with a full stop."""
    end = "" if text.endswith((".", "!", "?")) else "."
    return text[0].upper() + text[1:] + end


def an(noun: str) -> str:
    """Put the indefinite article before a noun."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def plural(noun: str) -> str:
    """Form the plural of a shape's name."""
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def join_with_and(items: Sequence[str]) -> str:
    """Join items with commas, and the last with "and"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def place_phrase(rng: random.Random, place: int) -> str:
    """Return a place with its preposition: "in the top left corner"."""
    return say(rng, f"place.{PLACES[place]}")


def place_name(rng: random.Random, place: int) -> str:
    """Return a place without preposition and article: "top left corner"."""
    return place_phrase(rng, place).partition(" the ")[2]


def thing_at_place(rng: random.Random, thing: Thing) -> str:
    """Return a thing with its place: "a red star in the centre"."""
    return f"{an(thing.name)} {place_phrase(rng, thing.place)}"


def things_at_places(rng: random.Random, things: Sequence[Thing]) -> str:
    """Return things with their places: "a red star in the centre and a blue cross at ..."."""
    return join_with_and([thing_at_place(rng, thing) for thing in things])


def place_pattern(place: int | None = None) -> str:
    """Regular expression for the phrase of a place; with None, `{}` stands for the place."""
    return rf"(?:in|at|on) the {'{}' if place is None else PLACES[place]}"


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


Drawing = Scene | Chart | Word


def describe(rng: random.Random, drawing: Drawing) -> str:
    """Describe everything in a drawing except its background."""
    match drawing:
        case Scene():
            if rng.random() < 0.7:
                things = things_at_places(rng, drawing.things)
                return say_sentence(rng, "description.all_things", things=things)
            return " ".join(_thing_sentence(rng, thing) for thing in drawing.things)
        case Chart():
            return bars_in_words(rng, drawing)
        case Word():
            return spelling(rng, drawing)


def _thing_sentence(rng: random.Random, thing: Thing) -> str:
    there = place_phrase(rng, thing.place)
    return say_sentence(rng, "description.one_thing", there=there, thing=an(thing.name))


def bar_in_words(rng: random.Random, bar: Bar) -> str:
    """Name a bar and its value: "red bar reaches three"."""
    return say(rng, "description.bar", c=bar.colour, n=bar.number)


def bars_in_words(rng: random.Random, chart: Chart) -> str:
    """Return a sentence that gives the bars of a chart from left to right."""
    bars = join_with_and([f"the {bar_in_words(rng, bar)}" for bar in chart.bars])
    return say_sentence(rng, "description.bars", n=NUMBERS[len(chart.bars) - 1], bars=bars)


def spelling(rng: random.Random, word: Word) -> str:
    """Return a sentence that spells a word letter by letter."""
    letters, count = ", ".join(word.text), NUMBERS[len(word.text) - 1]
    return say_sentence(rng, "description.letters", letters=letters, c=word.colour, n=count)
