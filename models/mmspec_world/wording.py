"""The wording of texts: phrases with random choices, descriptions, and facts with their forms."""

import random
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any

from mmspec_world.drawing import BACKGROUNDS, COLOURS, LETTERS, NUMBERS, PLACES, SHAPES
from mmspec_world.facts import SLOT, Fact
from mmspec_world.pictures import Bar, Chart, Drawing, Scene, Thing, Word, written_word

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_OPTIONS = {"colour": tuple(COLOURS), "shape": SHAPES, "place": PLACES}


@cache
def _phrases() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files(__package__).joinpath("phrases.toml").read_text(encoding="utf-8"))


def say(rng: random.Random, phrase: str, **slots: str) -> str:
    """Choose a text of the phrase `section.name` in phrases.toml, and fill in `slots` by name."""
    section, _, name = phrase.partition(".")
    texts = _phrases()[section][name]
    text = texts if isinstance(texts, str) else rng.choice(texts)
    while _CHOICE.search(text):
        text = _CHOICE.sub(lambda match: rng.choice(match.group(1).split("|")), text)
    return " ".join(text.format(**slots).split())


def prompts(name: str) -> list[str]:
    """Return the prompt of a published dataset, then other wordings of the same request."""
    return list(_phrases()["prompts"][name])


def say_sentence(rng: random.Random, phrase: str, **slots: str) -> str:
    """Fill in a phrase as `say` does, and return it as a sentence."""
    return sentence(say(rng, phrase, **slots))


def sentence(text: str) -> str:
    """Capitalise the first letter and end with a full stop."""
    end = "" if text.endswith((".", "!", "?")) else "."
    return text[0].upper() + text[1:] + end


def maybe_sentence(rng: random.Random, chance: float, phrase: str) -> str:
    """Return the phrase as a sentence with probability `chance`, else an empty text."""
    return say_sentence(rng, phrase) if rng.random() < chance else ""


def join_sentences(*parts: str) -> str:
    """Join sentences with spaces; empty ones are left out."""
    return " ".join(filter(None, parts))


def an(noun: str) -> str:
    """Put the indefinite article before a noun."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def plural(noun: str) -> str:
    """Form the plural of a shape's name."""
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def join_with_and(items: Sequence[str]) -> str:
    """Join items with commas, and the last with "and"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def lettered(choices: Sequence[str]) -> str:
    """Return choices in a row, each after its letter: "(A) red (B) blue"."""
    return " ".join(
        f"({letter}) {choice}" for letter, choice in zip(LETTERS, choices, strict=False)
    )


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


def thing_slots(thing: Thing) -> dict[str, str]:
    """The slots of phrases about one thing: its traits, and itself and its shape with articles."""
    return thing.traits | {"thing": an(thing.name), "a_shape": an(thing.shape)}


def fact(category: str, value: str, options: Sequence[str], section: str, **slots: str) -> Fact:
    """Return a fact whose forms are those of a section of phrases.toml, with `slots` filled in."""
    forms = tuple(form.format(SLOT, **slots) for form in _phrases()[section]["forms"])
    return Fact(category, value, tuple(options), forms)


def thing_fact(category: str, trait: str, section: str, thing: Thing) -> Fact:
    """Return a trait of a thing, "colour", "shape" or "place", as a fact."""
    return fact(category, thing.traits[trait], _OPTIONS[trait], section, **thing_slots(thing))


# Answers identify a thing by its shape, or by its colour where its shape is asked for.
thing_colour = partial(thing_fact, "colour", "colour", "colour")
thing_shape = partial(thing_fact, "shape", "shape", "shape")
thing_place = partial(thing_fact, "position", "place", "where")


def background_fact(background: str) -> Fact:
    """Return the colour of the background as a fact."""
    return fact("background", background, tuple(BACKGROUNDS), "background")


def bar_fact(bar: Bar) -> Fact:
    """Return the value of a bar as a fact."""
    return fact("chart", bar.number, NUMBERS, "bar", colour=bar.colour)


def word_fact(rng: random.Random, word: Word) -> Fact:
    """Return the written word as a fact; the other options are random words."""
    others = {written_word(rng).text for _ in range(7)} - {word.text}
    return fact("word", word.text, (word.text, *sorted(others)), "word")


def ink_fact(word: Word) -> Fact:
    """Return the colour of the letters as a fact."""
    return fact("colour", word.colour, tuple(COLOURS), "ink")


def event_facts(category: str, event: str, **things: Thing | None) -> tuple[Fact, ...]:
    """Return the facts that texts about an event state: those in `[facts]` of phrases.toml."""
    return tuple(
        Fact(category, thing.traits[trait], _OPTIONS[trait], tuple(forms))
        for name, trait, *forms in _phrases()["facts"][event]
        if (thing := things[name])
    )


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
