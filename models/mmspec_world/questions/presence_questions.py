"""Questions about things that may be missing from a scene, and small puzzles."""

import random

from mmspec_world.answers.descriptions import describe
from mmspec_world.answers.phrasing import an, say
from mmspec_world.answers.statements import thing_colour, thing_shape
from mmspec_world.facts import Fact, Query
from mmspec_world.questions.scene_questions import tally
from mmspec_world.scenes.palette import COLOURS, NUMBERS, SHAPES
from mmspec_world.scenes.scene import Scene, Thing

ENDS = {
    "furthest to the left": lambda thing: thing.place % 3,
    "furthest to the right": lambda thing: -(thing.place % 3),
    "nearest to the top": lambda thing: thing.place // 3,
    "nearest to the bottom": lambda thing: -(thing.place // 3),
}


def presence_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask whether a thing is in the scene; in three of four questions it is not."""
    singles = [thing for thing in scene.shape_singles() if thing in scene.colour_singles()]
    if not singles:
        return None
    thing = rng.choice(singles)
    if rng.random() < 0.25:
        return _thing_is_there(rng, scene, thing)
    if rng.random() < 0.5:
        return _wrong_colour(rng, scene, thing)
    return _wrong_shape(rng, scene, thing)


def puzzle_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask which thing lies outermost, or how many things are left without those of one shape."""
    return rng.choice((_outermost, _outermost, _left_over))(rng, scene)


def _thing_is_there(rng: random.Random, scene: Scene, thing: Thing) -> Query:
    question = say(rng, "presence.question", name=an(thing.name))
    if rng.random() < 0.5:
        clause = say(rng, "presence.right_colour", s=thing.shape, c=thing.colour)
        return Query(question, clause, describe(rng, scene), thing_colour(thing), verdict="yes")
    clause = say(rng, "presence.right_shape", c=thing.colour, s=an(thing.shape))
    return Query(question, clause, describe(rng, scene), thing_shape(thing), verdict="yes")


def _wrong_colour(rng: random.Random, scene: Scene, thing: Thing) -> Query:
    other = rng.choice([colour for colour in COLOURS if colour not in scene.colours])
    question = say(rng, "presence.question", name=f"{an(other)} {thing.shape}")
    clause = say(rng, "presence.wrong_colour", s=thing.shape, c=thing.colour, o=other)
    return Query(question, clause, describe(rng, scene), thing_colour(thing), verdict="no")


def _wrong_shape(rng: random.Random, scene: Scene, thing: Thing) -> Query:
    other = rng.choice([shape for shape in SHAPES if not scene.count(shape)])
    question = say(rng, "presence.question", name=f"{an(thing.colour)} {other}")
    clause = say(
        rng,
        "presence.wrong_shape",
        c=thing.colour,
        s=an(thing.shape),
        o=an(other),
    )
    return Query(question, clause, describe(rng, scene), thing_shape(thing), verdict="no")


def _outermost(rng: random.Random, scene: Scene) -> Query | None:
    end = rng.choice(tuple(ENDS))
    ranked = sorted(scene.things, key=ENDS[end])
    if len(ranked) < 2 or ENDS[end](ranked[0]) == ENDS[end](ranked[1]):
        return None
    first = ranked[0]
    clause = say(rng, "outermost.clause", end=end, s=an(first.shape))
    fact = Fact("relation", first.shape, SHAPES, (rf"(?:shape|object) {end} is an? {{}}",))
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
