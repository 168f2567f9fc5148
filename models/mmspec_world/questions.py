"""Questions about one drawing, each with the parts of its answer."""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from itertools import permutations

from mmspec_world import wording
from mmspec_world.drawing import COLOURS, NUMBERS, SHAPES
from mmspec_world.facts import Fact, Query
from mmspec_world.pictures import Chart, Drawing, Scene, Thing, Word
from mmspec_world.wording import Narrator, an, fact, plural, sentence, thing_fact, thing_slots

SIDES = ("left of", "right of", "above", "below")


def single_query(
    identity: str, trait: str, category: str, section: str, rng: Narrator, scene: Scene
) -> Query | None:
    """Ask for a trait of a thing whose trait `identity` occurs once; section: of the phrases."""
    if not (singles := scene.singles(identity)):
        return None
    thing = rng.choice(singles)
    question = rng.say(f"{section}.question", **thing_slots(thing))
    there = rng.place_phrase(thing.place) if trait == "place" else ""
    clause = rng.say(f"{section}.clause", **thing_slots(thing), there=there)
    answer_fact = thing_fact(category, trait, section, thing)
    about = thing.shape if identity == "shape" else ""
    return Query(question, clause, _look(rng, scene, thing), answer_fact, about)


colour_query = partial(single_query, "shape", "colour", "colour", "colour")
shape_query = partial(single_query, "colour", "shape", "shape", "shape")
place_query = partial(single_query, "shape", "place", "position", "where")


def _query(rng: Narrator, section: str, answer_fact: Fact, **slots: str) -> Query:
    """Return a query with clause and question of a section of phrases.toml."""
    clause = rng.say(f"{section}.clause", **slots)
    return Query(rng.say(f"{section}.question", **slots), clause, "", answer_fact)


def count_query(rng: Narrator, scene: Scene) -> Query | None:
    """Ask for the number of things of the most common shape."""
    shape = max(SHAPES, key=scene.count)
    count, shapes = scene.count(shape), plural(shape)
    number = NUMBERS[count - 1]
    be, name = ("are", shapes) if count > 1 else ("is", shape)
    answer_fact = fact("count", number, NUMBERS, "number", shape=shape, shapes=shapes)
    query = _query(rng, "number", answer_fact, shapes=shapes, be=be, n=number, s=name)
    return replace(query, needs_reasoning=True, steps=tally(rng, scene, {shape}))


def thing_at_query(rng: Narrator, scene: Scene) -> Query | None:
    """Ask for the shape in a place."""
    thing = rng.choice(scene.things)
    there = rng.place_phrase(thing.place)
    answer_fact = thing_fact("position", "shape", "what", thing)
    query = _query(rng, "what", answer_fact, **thing_slots(thing), there=there)
    return replace(query, evidence=_look(rng, scene, thing))


def relation_query(rng: Narrator, scene: Scene) -> Query | None:
    """Ask where one thing lies relative to another; None if no pair has a clear direction."""
    pairs = [pair for pair in permutations(scene.singles("shape"), 2) if relation(*pair)]
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    side, shapes = relation(first, second), {"a": first.shape, "b": second.shape}
    to = "to the " if side.endswith("of") else ""
    answer_fact = fact("relation", side, SIDES, "relation", **shapes)
    query = _query(rng, "relation", answer_fact, **shapes, side=side, to=to)
    traits = [thing.traits for thing in (first, second)]
    places = "; ".join("{shape}: {colour}, {place}".format(**each) for each in traits)
    return replace(query, needs_reasoning=True, steps=sentence(places))


def background_query(rng: Narrator, drawing: Drawing) -> Query | None:
    """Ask for the colour of the background."""
    clause = rng.say("background.clause", b=drawing.background)
    evidence, question = rng.describe(drawing), rng.say("background.question")
    return Query(question, clause, evidence, wording.background_fact(drawing.background))


def relation(first: Thing, second: Thing) -> str:
    """Return where the first thing lies relative to the second; empty on a diagonal."""
    right = first.place % 3 - second.place % 3
    down = first.place // 3 - second.place // 3
    if abs(right) == abs(down):
        return ""
    if abs(right) > abs(down):
        return "right of" if right > 0 else "left of"
    return "below" if down > 0 else "above"


def _look(rng: Narrator, scene: Scene, thing: Thing) -> str:
    if rng.random() < 0.7:
        return rng.describe(scene)
    there = rng.place_phrase(thing.place)
    return rng.say_sentence("description.asked_thing", thing=an(thing.name), there=there)


def tally(rng: Narrator, scene: Scene, shapes: Collection[str]) -> str:
    """List every thing, with a running number if its shape is one of `shapes`, else with "no"."""
    numbers = iter(NUMBERS)
    things = [
        f"{thing.name} {next(numbers) if thing.shape in shapes else 'no'}" for thing in scene.things
    ]
    return rng.say_sentence("description.count", things=", ".join(things))


def extreme_bar_query(rng: Narrator, chart: Chart) -> Query | None:
    """Ask which bar is the tallest or the shortest."""
    word, pick = rng.choice((("tallest", max), ("shortest", min)))
    bar = pick(chart.bars, key=lambda bar: bar.value)
    answer_fact = fact("chart", bar.colour, tuple(COLOURS), "extreme_bar", word=word)
    query = _query(rng, "extreme_bar", answer_fact, word=word, colour=bar.colour)
    return replace(query, evidence=rng.describe(chart), needs_reasoning=True)


def bar_value_query(rng: Narrator, chart: Chart) -> Query | None:
    """Ask for the value of a bar."""
    bar = rng.choice(chart.bars)
    question = rng.say("bar.question", colour=bar.colour)
    clause = "the " + rng.bar_in_words(bar)
    return Query(question, clause, rng.describe(chart), wording.bar_fact(bar))


def word_query(rng: Narrator, word: Word) -> Query | None:
    """Ask what word is written."""
    clause = rng.say("word.clause", w=word.text)
    question, answer_fact = rng.say("word.question"), rng.word_fact(word)
    return Query(question, clause, rng.describe(word), answer_fact, needs_reasoning=True)


def ink_query(rng: Narrator, word: Word) -> Query | None:
    """Ask for the colour of the letters."""
    query = _query(rng, "ink", wording.ink_fact(word), c=word.colour)
    return replace(query, evidence=rng.describe(word))


ENDS = {
    "furthest to the left": lambda thing: thing.place % 3,
    "furthest to the right": lambda thing: -(thing.place % 3),
    "nearest to the top": lambda thing: thing.place // 3,
    "nearest to the bottom": lambda thing: -(thing.place // 3),
}


def presence_query(rng: Narrator, scene: Scene) -> Query | None:
    """Ask whether a thing is in the scene; in three of four questions it is not."""
    singles = [thing for thing in scene.singles("shape") if thing in scene.singles("colour")]
    if not singles:
        return None
    thing = rng.choice(singles)
    is_present = rng.random() < 0.25
    if is_present:
        question = rng.say("presence.question", name=an(thing.name))
        trait, subject = _colour_or_shape(rng), thing
    else:
        trait = _colour_or_shape(rng)
        if trait == "colour":
            present = {other.colour for other in scene.things}
            subject = replace(thing, colour=rng.choice([c for c in COLOURS if c not in present]))
        else:
            subject = replace(thing, shape=scene.new_shape(rng))
        question = rng.say("presence.question", name=an(subject.name))
    verdict, other = "yes" if is_present else "no", thing_slots(subject)
    o = other["colour" if trait == "colour" else "a_shape"]
    clause = rng.say(f"presence.{verdict}_{trait}", **thing_slots(thing), o=o)
    answer_fact = thing_fact(trait, trait, trait, thing)
    return Query(question, clause, rng.describe(scene), answer_fact, verdict=verdict)


def _colour_or_shape(rng: Narrator) -> str:
    return "colour" if rng.random() < 0.5 else "shape"


def puzzle_query(rng: Narrator, scene: Scene) -> Query | None:
    """Ask which thing lies outermost, or how many things remain without those of one shape."""
    return rng.choice((_outermost, _outermost, _left_over))(rng, scene)


def _outermost(rng: Narrator, scene: Scene) -> Query | None:
    end = rng.choice(tuple(ENDS))
    things = sorted(scene.things, key=ENDS[end])
    if len(things) < 2 or ENDS[end](things[0]) == ENDS[end](things[1]):
        return None
    first = things[0]
    clause = rng.say("outermost.clause", end=end, **thing_slots(first))
    answer_fact = fact("relation", first.shape, SHAPES, "outermost", end=end)
    evidence, question = rng.describe(scene), rng.say("outermost.question", end=end)
    return Query(question, clause, evidence, answer_fact, needs_reasoning=True)


def _left_over(rng: Narrator, scene: Scene) -> Query | None:
    shape = rng.choice(scene.things).shape
    count = len(scene.things) - scene.count(shape)
    if not count:
        return None
    number, objects = NUMBERS[count - 1], "object" if count == 1 else "objects"
    answer_fact = fact("count", number, NUMBERS, "left_over")
    query = _query(rng, "left_over", answer_fact, n=number, objects=objects, shape=shape)
    return replace(query, needs_reasoning=True, steps=tally(rng, scene, {*SHAPES} - {shape}))
