"""Questions about things that may be missing from a scene, and small puzzles."""

import random
from dataclasses import replace

from mmspec_world.answers.descriptions import describe
from mmspec_world.answers.phrasing import an, say
from mmspec_world.answers.statements import thing_colour, thing_fact, thing_shape
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
