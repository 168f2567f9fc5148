"""Phrases with random choices, and texts for places, things and lists."""

import random
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from mmspec_world.scenes.palette import PLACES
from mmspec_world.scenes.scene import Thing

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
