"""Questions about one drawing, each with the parts of its answer."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from mmspec_world.drawing import COLOURS, NUMBERS, SHAPES
from mmspec_world.facts import Fact, Query
from mmspec_world.pictures import Chart, Drawing, Scene, Thing, Word
from mmspec_world.wording import (
    an,
    background_fact,
    bar_fact,
    bar_in_words,
    bars_in_words,
    describe,
    fact,
    ink_fact,
    place_phrase,
    plural,
    say,
    say_sentence,
    sentence,
    spelling,
    thing_colour,
    thing_fact,
    thing_place,
    thing_shape,
    thing_slots,
    word_fact,
)

BY_SHAPE = "{shape}: {colour}, {place}"
"""Colour and place of a thing by its shape: "star: red, top left"."""
SIDES = ("left of", "right of", "above", "below")


def single_query(
    known: str, section: str, answer: Callable[[Thing], Fact], rng: random.Random, scene: Scene
) -> Query | None:
    """Ask for a trait of a thing whose trait `known` occurs once; section: of the phrases."""
    if not (singles := scene.singles(known)):
        return None
    thing = rng.choice(singles)
    question = say(rng, f"{section}.question", **thing_slots(thing))
    there = place_phrase(rng, thing.place) if section == "where" else ""
    clause = say(rng, f"{section}.clause", **thing_slots(thing), there=there)
    about = thing.shape if known == "shape" else ""
    return Query(question, clause, _look(rng, scene, thing), answer(thing), about)


colour_query = partial(single_query, "shape", "colour", thing_colour)
shape_query = partial(single_query, "colour", "shape", thing_shape)
place_query = partial(single_query, "shape", "where", thing_place)


def count_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask for the number of things of the most common shape."""
    shape = max(SHAPES, key=scene.count)
    count, shapes = scene.count(shape), plural(shape)
    number = NUMBERS[count - 1]
    be, name = ("are", shapes) if count > 1 else ("is", shape)
    clause = say(rng, "number.clause", be=be, n=number, s=name)
    stated = fact("count", number, NUMBERS, "number", shape=shape, shapes=shapes)
    question = say(rng, "number.question", shapes=shapes)
    counted = [thing for thing in scene.things if thing.shape == shape]
    return Query(question, clause, "", stated, derived=True, steps=tally(rng, scene, counted))


def thing_at_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask for the shape in a place."""
    thing = rng.choice(scene.things)
    there = place_phrase(rng, thing.place)
    clause = say(rng, "what.clause", **thing_slots(thing), there=there)
    question = say(rng, "what.question", there=there)
    stated = thing_fact("position", "shape", "what", thing)
    return Query(question, clause, _look(rng, scene, thing), stated)


def relation_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask where one thing lies relative to another; None if no pair has a clear direction."""
    singles = scene.singles("shape")
    pairs = [(a, b) for a in singles for b in singles if a is not b and relation(a, b)]
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    side, shapes = relation(first, second), {"a": first.shape, "b": second.shape}
    to = "to the " if side.endswith("of") else ""
    clause = say(rng, "relation.clause", **shapes, side=side, to=to)
    stated = fact("relation", side, SIDES, "relation", **shapes)
    question = say(rng, "relation.question", **shapes)
    places = sentence("; ".join(BY_SHAPE.format(**thing.traits) for thing in (first, second)))
    return Query(question, clause, "", stated, derived=True, steps=places)


def background_query(rng: random.Random, drawing: Drawing) -> Query | None:
    """Ask for the colour of the background."""
    clause = say(rng, "background.clause", b=drawing.background)
    evidence, question = describe(rng, drawing), say(rng, "background.question")
    return Query(question, clause, evidence, background_fact(drawing.background))


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


def extreme_bar_query(rng: random.Random, chart: Chart) -> Query | None:
    """Ask which bar is the tallest or the shortest."""
    word, pick = rng.choice((("tallest", max), ("shortest", min)))
    bar = pick(chart.bars, key=lambda bar: bar.value)
    clause = say(rng, "extreme_bar.clause", word=word, colour=bar.colour)
    stated = fact("chart", bar.colour, tuple(COLOURS), "extreme_bar", word=word)
    question = say(rng, "extreme_bar.question", word=word)
    return Query(question, clause, bars_in_words(rng, chart), stated, derived=True)


def bar_value_query(rng: random.Random, chart: Chart) -> Query | None:
    """Ask for the value of a bar."""
    bar = rng.choice(chart.bars)
    question = say(rng, "bar.question", colour=bar.colour)
    clause = "the " + bar_in_words(rng, bar)
    return Query(question, clause, bars_in_words(rng, chart), bar_fact(bar))


def word_query(rng: random.Random, word: Word) -> Query | None:
    """Ask what word is written."""
    clause = say(rng, "word.clause", w=word.text)
    question, stated = say(rng, "word.question"), word_fact(rng, word)
    return Query(question, clause, spelling(rng, word), stated, derived=True)


def ink_query(rng: random.Random, word: Word) -> Query | None:
    """Ask for the colour of the letters."""
    clause = say(rng, "ink.clause", c=word.colour)
    question = say(rng, "ink.question")
    return Query(question, clause, spelling(rng, word), ink_fact(word))


ENDS = {
    "furthest to the left": lambda thing: thing.place % 3,
    "furthest to the right": lambda thing: -(thing.place % 3),
    "nearest to the top": lambda thing: thing.place // 3,
    "nearest to the bottom": lambda thing: -(thing.place // 3),
}


def presence_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask whether a thing is in the scene; in three of four questions it is not."""
    singles = [thing for thing in scene.singles("shape") if thing in scene.singles("colour")]
    if not singles:
        return None
    thing = rng.choice(singles)
    is_present = rng.random() < 0.25
    if is_present:
        question = say(rng, "presence.question", name=an(thing.name))
        trait, asked = _colour_or_shape(rng), thing
    else:
        trait = _colour_or_shape(rng)
        asked = _missing(rng, scene, thing, trait)
        question = say(rng, "presence.question", name=an(asked.name))
    verdict, other = "yes" if is_present else "no", thing_slots(asked)
    o = other["colour" if trait == "colour" else "a_shape"]
    clause = say(rng, f"presence.{verdict}_{trait}", **thing_slots(thing), o=o)
    stated = thing_colour(thing) if trait == "colour" else thing_shape(thing)
    return Query(question, clause, describe(rng, scene), stated, verdict=verdict)


def _colour_or_shape(rng: random.Random) -> str:
    return "colour" if rng.random() < 0.5 else "shape"


def _missing(rng: random.Random, scene: Scene, thing: Thing, trait: str) -> Thing:
    """The thing with a colour or a shape that no thing in the scene has."""
    if trait == "colour":
        return replace(thing, colour=rng.choice([c for c in COLOURS if c not in scene.colours]))
    return replace(thing, shape=rng.choice([shape for shape in SHAPES if not scene.count(shape)]))


def puzzle_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask which thing lies outermost, or how many things remain without those of one shape."""
    return rng.choice((_outermost, _outermost, _left_over))(rng, scene)


def _outermost(rng: random.Random, scene: Scene) -> Query | None:
    end = rng.choice(tuple(ENDS))
    ranked = sorted(scene.things, key=ENDS[end])
    if len(ranked) < 2 or ENDS[end](ranked[0]) == ENDS[end](ranked[1]):
        return None
    first = ranked[0]
    clause = say(rng, "outermost.clause", end=end, **thing_slots(first))
    stated = fact("relation", first.shape, SHAPES, "outermost", end=end)
    evidence, question = describe(rng, scene), say(rng, "outermost.question", end=end)
    return Query(question, clause, evidence, stated, derived=True)


def _left_over(rng: random.Random, scene: Scene) -> Query | None:
    shape = rng.choice(scene.things).shape
    left = len(scene.things) - scene.count(shape)
    if not left:
        return None
    objects = "object" if left == 1 else "objects"
    clause = say(rng, "left_over.clause", n=NUMBERS[left - 1], objects=objects)
    stated = fact("count", NUMBERS[left - 1], NUMBERS, "left_over")
    staying = [thing for thing in scene.things if thing.shape != shape]
    question, steps = say(rng, "left_over.question", shape=shape), tally(rng, scene, staying)
    return Query(question, clause, "", stated, derived=True, steps=steps)
