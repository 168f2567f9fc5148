"""Questions about one scene, with the parts of their answers."""

import random
from collections.abc import Sequence

from mmspec_world.answers.descriptions import Drawing, describe
from mmspec_world.answers.phrasing import (
    an,
    place_pattern,
    place_phrase,
    plural,
    say,
    say_sentence,
    sentence,
)
from mmspec_world.answers.statements import (
    background_fact,
    thing_colour,
    thing_fact,
    thing_place,
    thing_shape,
)
from mmspec_world.facts import Fact, Query
from mmspec_world.scenes.palette import NUMBERS, SHAPES
from mmspec_world.scenes.scene import Scene, Thing

BY_SHAPE = "{shape}: {colour}, {place}"
"""Colour and place of a thing by its shape: "star: red, top left"."""


def colour_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask for the colour of a shape that occurs once."""
    if not (singles := scene.singles("shape")):
        return None
    thing = rng.choice(singles)
    question = say(rng, "colour.question", shape=thing.shape)
    clause = say(rng, "colour.clause", s=thing.shape, c=thing.colour)
    return Query(question, clause, _look(rng, scene, thing), thing_colour(thing), thing.shape)


def shape_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask for the shape of the only thing of a colour."""
    if not (singles := scene.singles("colour")):
        return None
    thing = rng.choice(singles)
    question = say(rng, "shape.question", colour=thing.colour)
    clause = say(rng, "shape.clause", c=thing.colour, s=an(thing.shape))
    return Query(question, clause, _look(rng, scene, thing), thing_shape(thing))


def count_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask for the number of things of the most common shape."""
    shape = max(SHAPES, key=scene.count)
    number = scene.count(shape)
    name = plural(shape) if number > 1 else shape
    clause = say(
        rng,
        "number.clause",
        be="are" if number > 1 else "is",
        n=NUMBERS[number - 1],
        s=name,
    )
    forms = (rf"{{}} (?:{shape}|{plural(shape)})",)
    fact = Fact("count", NUMBERS[number - 1], NUMBERS, forms)
    question = say(rng, "number.question", shapes=plural(shape))
    counted = [thing for thing in scene.things if thing.shape == shape]
    return Query(question, clause, "", fact, derived=True, steps=tally(rng, scene, counted))


def place_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask for the place of a shape that occurs once."""
    if not (singles := scene.singles("shape")):
        return None
    thing = rng.choice(singles)
    question = say(rng, "where.question", shape=thing.shape)
    clause = say(rng, "where.clause", s=thing.shape, there=place_phrase(rng, thing.place))
    return Query(question, clause, _look(rng, scene, thing), thing_place(thing), thing.shape)


def thing_at_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask for the shape in a place."""
    thing = rng.choice(scene.things)
    there = place_phrase(rng, thing.place)
    clause = say(rng, "what.clause", there=there, s=an(thing.shape))
    form = rf"(?:shape|object) {place_pattern(thing.place)}(?: corner| side)? is an? {{}}"
    fact = thing_fact("position", thing, "shape", form)
    question = say(rng, "what.question", there=there)
    return Query(question, clause, _look(rng, scene, thing), fact)


def relation_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask where one thing lies relative to another; None if no pair has a clear direction."""
    singles = scene.singles("shape")
    pairs = [(a, b) for a in singles for b in singles if a is not b and relation(a, b)]
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    side = relation(first, second)
    clause = say(
        rng,
        "relation.clause",
        a=first.shape,
        b=second.shape,
        side=side,
        to="to the " if side.endswith("of") else "",
    )
    form = rf"{first.shape} (?:is|lies) (?:to the )?{{}} the {second.shape}"
    fact = Fact("relation", side, ("left of", "right of", "above", "below"), (form,))
    question = say(rng, "relation.question", a=first.shape, b=second.shape)
    places = sentence("; ".join(BY_SHAPE.format(**thing.traits) for thing in (first, second)))
    return Query(question, clause, "", fact, derived=True, steps=places)


def background_query(rng: random.Random, drawing: Drawing) -> Query | None:
    """Ask for the colour of the background."""
    clause = say(rng, "background.clause", b=drawing.background)
    evidence = describe(rng, drawing)
    return Query(
        say(rng, "background.question"), clause, evidence, background_fact(drawing.background)
    )


def relation(first: Thing, second: Thing) -> str:
    """Return where the first thing lies relative to the second; empty on a diagonal."""
    right = first.place % 3 - second.place % 3
    down = first.place // 3 - second.place // 3
    if abs(right) == abs(down):
        return ""
    if abs(right) > abs(down):
        return "right of" if right > 0 else "left of"
    return "below" if down > 0 else "above"


def _look(rng: random.Random, scene: Scene, thing: Thing) -> str:
    if rng.random() < 0.7:
        return describe(rng, scene)
    return say_sentence(
        rng, "description.asked_thing", thing=an(thing.name), there=place_phrase(rng, thing.place)
    )


def tally(rng: random.Random, scene: Scene, counted: Sequence[Thing]) -> str:
    """List every thing, with a running number if it is in `counted`, else with "no"."""
    numbers = iter(NUMBERS)
    marks = [next(numbers) if thing in counted else "no" for thing in scene.things]
    things = [f"{thing.name} {mark}" for thing, mark in zip(scene.things, marks, strict=True)]
    return say_sentence(rng, "description.count", things=", ".join(things))
