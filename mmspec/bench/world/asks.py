"""Questions about a scene, each with its fact, its conclusion and what supports it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from mmspec.bench.world.describing import Picture, describe
from mmspec.bench.world.facts import Fact
from mmspec.bench.world.palette import NUMBERS, PLACES, SHAPES
from mmspec.bench.world.phrasing import (
    an,
    at,
    place_pattern,
    plural,
    say,
    sentence,
)
from mmspec.bench.world.scene import Scene, Thing
from mmspec.bench.world.statements import background_fact, thing_colour, thing_place, thing_shape

LOOK = (
    "{there} [there is|I can see|I find] {thing}",
    "[looking at the picture|looking closely], I find {thing} {there}",
    "the picture [shows|has] {thing} {there}",
)
GOING_THROUGH = (
    "going through [the picture|all shapes]: {things}",
    "[I go through|I count in] the picture: {things}",
    "[counting them one by one|counting from top to bottom]: {things}",
)
QUESTIONS: dict[str, Sequence[str]] = {
    "colour": (
        "What colour is the {shape}?",
        "What is the colour of the {shape}?",
        "Which colour does the {shape} have?",
    ),
    "shape": (
        "What shape is the {colour} object?",
        "What is the {colour} object?",
        "Which shape is {colour}?",
    ),
    "count": (
        "How many {shapes} are there?",
        "How many {shapes} [can you see|are in the picture]?",
        "What is the number of {shapes}?",
    ),
    "place": (
        "Where is the {shape}?",
        "Where in the picture is the {shape}?",
        "In which part of the picture is the {shape}?",
    ),
    "what is at": ("What is {there}?", "Which shape is {there}?", "What can you see {there}?"),
    "relation": (
        "Where is the {a} relative to the {b}?",
        "Is the {a} left of, right of, above or below the {b}?",
        "On which side of the {b} is the {a}?",
    ),
    "background": (
        "What colour is the background?",
        "Which colour does the background have?",
        "What is the background of the picture?",
    ),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """A question, the clause that answers it and the sentences that support the clause.

    `evidence` describes the picture; `steps` are what is concluded from it before the answer.
    `about` names what a follow-up can call "it"; `verdict` is the "yes" or "no" of a question
    that wants one. Both are empty where there is no such thing. `derived`: the clause follows from
    the evidence, as a count does, and is not seen at once.
    """

    question: str
    clause: str
    evidence: str
    fact: Fact
    about: str = ""
    verdict: str = ""
    derived: bool = False
    steps: str = ""


def ask_colour(rng: random.Random, scene: Scene) -> Ask | None:
    """Ask for the colour of a shape that is there once."""
    if not (singles := scene.shape_singles()):
        return None
    thing = rng.choice(singles)
    question = say(rng, QUESTIONS["colour"], shape=thing.shape)
    clause = say(
        rng,
        "[the {s} is {c}|the {s} in the picture is {c}|the colour of the {s} is {c}]",
        s=thing.shape,
        c=thing.colour,
    )
    return Ask(question, clause, _look(rng, scene, thing), thing_colour(thing), thing.shape)


def ask_shape(rng: random.Random, scene: Scene) -> Ask | None:
    """Ask for the shape of the only thing of a colour."""
    if not (singles := scene.colour_singles()):
        return None
    thing = rng.choice(singles)
    question = say(rng, QUESTIONS["shape"], colour=thing.colour)
    clause = say(rng, "the {c} [object|shape|thing] is {s}", c=thing.colour, s=an(thing.shape))
    return Ask(question, clause, _look(rng, scene, thing), thing_shape(thing))


def ask_count(rng: random.Random, scene: Scene) -> Ask | None:
    """Ask how many there are of a shape."""
    shape = max(SHAPES, key=scene.count)
    number = scene.count(shape)
    name = plural(shape) if number > 1 else shape
    clause = say(
        rng,
        "[there {be} {n} {s}|I count {n} {s}|the picture has {n} {s}|we see {n} {s}]",
        be="are" if number > 1 else "is",
        n=NUMBERS[number - 1],
        s=name,
    )
    forms = (rf"{{}} (?:{shape}|{plural(shape)})",)
    fact = Fact("count", NUMBERS[number - 1], NUMBERS, forms)
    question = say(rng, QUESTIONS["count"], shapes=plural(shape))
    counted = [thing for thing in scene.things if thing.shape == shape]
    return Ask(question, clause, "", fact, derived=True, steps=tally(rng, scene, counted))


def ask_place(rng: random.Random, scene: Scene) -> Ask | None:
    """Ask where a shape is that is there once."""
    if not (singles := scene.shape_singles()):
        return None
    thing = rng.choice(singles)
    question = say(rng, QUESTIONS["place"], shape=thing.shape)
    clause = say(
        rng,
        "the {s} [is|sits|stands|appears|can be seen|can be found] {there}",
        s=thing.shape,
        there=at(rng, thing.place),
    )
    return Ask(question, clause, _look(rng, scene, thing), thing_place(thing), thing.shape)


def ask_what_is_at(rng: random.Random, scene: Scene) -> Ask | None:
    """Ask which shape is in a place."""
    thing = rng.choice(scene.things)
    there = at(rng, thing.place)
    clause = say(rng, "the [shape|object] {there} is {s}", there=there, s=an(thing.shape))
    form = rf"(?:shape|object) {place_pattern(thing.place)}(?: corner| side)? is an? {{}}"
    fact = Fact("position", thing.shape, SHAPES, (form,))
    question = say(rng, QUESTIONS["what is at"], there=there)
    return Ask(question, clause, _look(rng, scene, thing), fact)


def ask_relation(rng: random.Random, scene: Scene) -> Ask | None:
    """Ask how two things lie to each other, where one direction clearly dominates."""
    singles = scene.shape_singles()
    pairs = [(a, b) for a in singles for b in singles if a is not b and relation(a, b)]
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    side = relation(first, second)
    clause = say(
        rng,
        "the {a} [is|lies] {to}{side} the {b}",
        a=first.shape,
        b=second.shape,
        side=side,
        to="to the " if side.endswith("of") else "",
    )
    form = rf"{first.shape} (?:is|lies) (?:to the )?{{}} the {second.shape}"
    fact = Fact("relation", side, ("left of", "right of", "above", "below"), (form,))
    question = say(rng, QUESTIONS["relation"], a=first.shape, b=second.shape)
    places = sentence(by_shape(first, second))
    return Ask(question, clause, "", fact, derived=True, steps=places)


def ask_background(rng: random.Random, picture: Picture) -> Ask | None:
    """Ask for the background."""
    clause = say(
        rng,
        ("the background[ of the picture|] is {b}", "the picture has a {b} background"),
        b=picture.background,
    )
    evidence = describe(rng, picture)
    return Ask(
        say(rng, QUESTIONS["background"]), clause, evidence, background_fact(picture.background)
    )


def by_shape(*things: Thing) -> str:
    """Give colour and place by shape: "star: red, top left; cross: blue, centre"."""
    return "; ".join(f"{thing.shape}: {thing.colour}, {PLACES[thing.place]}" for thing in things)


def relation(first: Thing, second: Thing) -> str:
    """Say where the first thing lies from the second, or nothing where that is not clear."""
    right = first.place % 3 - second.place % 3
    down = first.place // 3 - second.place // 3
    if min(abs(right), abs(down)) and abs(abs(right) - abs(down)) < 1:
        return ""
    if abs(right) > abs(down):
        return "right of" if right > 0 else "left of"
    return "below" if down > 0 else "above"


def _look(rng: random.Random, scene: Scene, thing: Thing) -> str:
    """Support a statement about a thing: mostly by all things, sometimes by this one."""
    if rng.random() < 0.7:
        return describe(rng, scene)
    return sentence(say(rng, LOOK, thing=an(thing.name), there=at(rng, thing.place)))


def tally(rng: random.Random, scene: Scene, counted: Sequence[Thing]) -> str:
    """List every thing, numbering those that are counted."""
    numbers = iter(NUMBERS)
    marks = [next(numbers) if thing in counted else "no" for thing in scene.things]
    things = [f"{thing.name} {mark}" for thing, mark in zip(scene.things, marks, strict=True)]
    return sentence(say(rng, GOING_THROUGH, things=", ".join(things)))
