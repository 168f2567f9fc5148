"""How things are said: templates with choices, and the names of places, lists and numbers."""

import random
import re
from collections.abc import Sequence

from mmspec.bench.world.palette import PLACES
from mmspec.bench.world.scene import Scene, Thing

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


def placed(rng: random.Random, thing: Thing) -> str:
    """Name a thing and its place: "a red star in the centre"."""
    return f"{an(thing.name)} {at(rng, thing.place)}"


SHOWS = (
    "[the|this] [picture|image|drawing] [shows|contains|has] {things}",
    "[in the picture|here|in this image], [I can see|there is|we find] {things}",
    "[I can see|I see|there is] {things}[ in the picture|]",
    "what [we see|is drawn] here is {things}",
)
SCATTERED = (
    "{there} [there is|I can see|I find] {thing}",
    "{thing} [is drawn|sits|stands|appears] {there}",
    "{thing} [can be seen|can be found] {there}",
)
BACKDROP = (
    "[the background is {b}|the background of the picture is {b}]",
    "everything [is drawn|lies|is placed] on a {b} background",
    "[all of this|this] [is|stands] on a {b} background",
)


def inventory(rng: random.Random, scene: Scene) -> str:
    """List every thing with its place in one sentence, in reading order."""
    things = listed([placed(rng, thing) for thing in scene.things])
    return sentence(say(rng, SHOWS, things=things))


def tour(rng: random.Random, scene: Scene) -> str:
    """Give every thing a sentence of its own."""
    return " ".join(
        sentence(say(rng, SCATTERED, there=at(rng, thing.place), thing=an(thing.name)))
        for thing in scene.things
    )


def backdrop(rng: random.Random, background: str) -> str:
    """Say what the background is."""
    return sentence(say(rng, BACKDROP, b=background))


def place_pattern(place: int | None = None) -> str:
    """Match a place as the phrases say it; None leaves a slot for the place."""
    return rf"(?:in|at|on) the {'{}' if place is None else PLACES[place]}"
