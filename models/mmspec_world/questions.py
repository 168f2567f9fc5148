"""Questions about one drawing, each with the parts of its answer."""

import random
from collections.abc import Sequence
from dataclasses import replace

from mmspec_world.drawing import COLOURS, NUMBERS, SHAPES
from mmspec_world.facts import Fact, Query
from mmspec_world.pictures import Chart, Scene, Thing, Word
from mmspec_world.wording import (
    Drawing,
    an,
    background_fact,
    bar_fact,
    bar_in_words,
    bars_in_words,
    describe,
    ink_fact,
    place_pattern,
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
    word_fact,
)

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


def extreme_bar_query(rng: random.Random, chart: Chart) -> Query | None:
    """Ask which bar is the tallest or the shortest."""
    word, pick = rng.choice((("tallest", max), ("shortest", min)))
    bar = pick(chart.bars, key=lambda bar: bar.value)
    clause = say(rng, "extreme_bar.clause", w=word, c=bar.colour)
    forms = (rf"{word} bar is {{}}", rf"{{}} bar is the {word}")
    fact = Fact("chart", bar.colour, tuple(COLOURS), forms)
    question = say(rng, "extreme_bar.question", word=word)
    return Query(question, clause, bars_in_words(rng, chart), fact, derived=True)


def bar_value_query(rng: random.Random, chart: Chart) -> Query | None:
    """Ask for the value of a bar."""
    bar = rng.choice(chart.bars)
    question = say(rng, "bar.question", colour=bar.colour)
    clause = "the " + bar_in_words(rng, bar)
    return Query(question, clause, bars_in_words(rng, chart), bar_fact(bar))


def word_query(rng: random.Random, word: Word) -> Query | None:
    """Ask what word is written."""
    clause = say(rng, "word.clause", w=word.text)
    question, fact = say(rng, "word.question"), word_fact(rng, word)
    return Query(question, clause, spelling(rng, word), fact, derived=True)


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
    if rng.random() < 0.25:
        asked, verdict = thing, "yes"
        question = say(rng, "presence.question", name=an(asked.name))
        trait = _colour_or_shape(rng)
    else:
        trait = _colour_or_shape(rng)
        asked, verdict = _missing(rng, scene, thing, trait), "no"
        question = say(rng, "presence.question", name=an(asked.name))
    if trait == "colour":
        slots = {"s": thing.shape, "c": thing.colour, "o": asked.colour}
    else:
        slots = {"s": an(thing.shape), "c": thing.colour, "o": an(asked.shape)}
    clause = say(rng, f"presence.{verdict}_{trait}", **slots)
    fact = thing_colour(thing) if trait == "colour" else thing_shape(thing)
    return Query(question, clause, describe(rng, scene), fact, verdict=verdict)


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
    clause = say(rng, "outermost.clause", end=end, s=an(first.shape))
    fact = thing_fact("relation", first, "shape", rf"(?:shape|object) {end} is an? {{}}")
    evidence = describe(rng, scene)
    return Query(say(rng, "outermost.question", end=end), clause, evidence, fact, derived=True)


def _left_over(rng: random.Random, scene: Scene) -> Query | None:
    shape = rng.choice(scene.things).shape
    left = len(scene.things) - scene.count(shape)
    if not left:
        return None
    clause = say(
        rng,
        "left_over.clause",
        n=NUMBERS[left - 1],
        thing="object" if left == 1 else "objects",
    )
    fact = Fact("count", NUMBERS[left - 1], NUMBERS, (r"{} objects? would",))
    staying = [thing for thing in scene.things if thing.shape != shape]
    question, steps = say(rng, "left_over.question", shape=shape), tally(rng, scene, staying)
    return Query(question, clause, "", fact, derived=True, steps=steps)
