"""How things are said: templates with choices, and the names of places, lists and numbers."""

import random
import re
from collections.abc import Sequence

from mmspec.bench.world.palette import PLACES
from mmspec.bench.world.scene import Thing

_CHOICE = re.compile(r"\[([^\[\]]*)\]")

# Every phrase holds the place's name after "the", which is how facts find it.
PLACE_PHRASES = (
    "[in|at] the top left[ corner|]", "at the top", "[in|at] the top right[ corner|]",
    "on the left[ side|]", "in the centre", "on the right[ side|]",
    "[in|at] the bottom left[ corner|]", "at the bottom", "[in|at] the bottom right[ corner|]",
)  # fmt: skip


def say(rng: random.Random, template: str | Sequence[str], **slots: str) -> str:
    """Fill a template: choose among `[a|b]` at random, then put the slots in.

    Of several templates one is chosen at random.
    """
    text = template if isinstance(template, str) else rng.choice(template)
    while _CHOICE.search(text):
        text = _CHOICE.sub(lambda match: rng.choice(match.group(1).split("|")), text)
    return " ".join(text.format(**slots).split())


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


def listed(items: Sequence[str]) -> str:
    """Join items with commas and a final "and"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def at(rng: random.Random, place: int) -> str:
    """Say where a place is: "in the top left corner"."""
    return say(rng, PLACE_PHRASES[place])


def place_name(rng: random.Random, place: int) -> str:
    """Name a place without a preposition: "top left corner"."""
    return at(rng, place).partition(" the ")[2]


def placed(rng: random.Random, thing: Thing) -> str:
    """Name a thing and its place: "a red star in the centre"."""
    return f"{an(thing.name)} {at(rng, thing.place)}"


def place_pattern(place: int | None = None) -> str:
    """Match a place as the phrases say it; None leaves a slot for the place."""
    return rf"(?:in|at|on) the {'{}' if place is None else PLACES[place]}"
