"""Questions about one drawing, each with the parts of its answer, and answers of these parts."""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations

from mmspec_world.drawing import COLOURS, NUMBERS, SHAPES
from mmspec_world.facts import Fact, Query
from mmspec_world.pictures import (
    Chart,
    Drawing,
    Scene,
    Thing,
    Word,
    bar_chart,
    few_things,
    many_things,
    two_apart,
    written_word,
)
from mmspec_world.split import Split, draw_in_split
from mmspec_world.wording import (
    an,
    background_fact,
    bar_fact,
    bar_in_words,
    describe,
    fact,
    ink_fact,
    join_sentences,
    maybe_sentence,
    place_phrase,
    plural,
    say,
    say_sentence,
    sentence,
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


Maker = Callable[[random.Random], Drawing]
QueryMaker = Callable[..., Query | None]
"""Function that asks a question about a drawing; None if the drawing does not allow it."""


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


def _query(rng: random.Random, section: str, stated: Fact, **slots: str) -> Query:
    """Return a query with clause and question of a section of phrases.toml."""
    clause = say(rng, f"{section}.clause", **slots)
    return Query(say(rng, f"{section}.question", **slots), clause, "", stated)


def count_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask for the number of things of the most common shape."""
    shape = max(SHAPES, key=scene.count)
    count, shapes = scene.count(shape), plural(shape)
    number = NUMBERS[count - 1]
    be, name = ("are", shapes) if count > 1 else ("is", shape)
    stated = fact("count", number, NUMBERS, "number", shape=shape, shapes=shapes)
    query = _query(rng, "number", stated, shapes=shapes, be=be, n=number, s=name)
    return replace(query, derived=True, steps=tally(rng, scene, {shape}))


def thing_at_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask for the shape in a place."""
    thing = rng.choice(scene.things)
    there = place_phrase(rng, thing.place)
    stated = thing_fact("position", "shape", "what", thing)
    query = _query(rng, "what", stated, **thing_slots(thing), there=there)
    return replace(query, evidence=_look(rng, scene, thing))


def relation_query(rng: random.Random, scene: Scene) -> Query | None:
    """Ask where one thing lies relative to another; None if no pair has a clear direction."""
    pairs = [pair for pair in permutations(scene.singles("shape"), 2) if relation(*pair)]
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    side, shapes = relation(first, second), {"a": first.shape, "b": second.shape}
    to = "to the " if side.endswith("of") else ""
    stated = fact("relation", side, SIDES, "relation", **shapes)
    query = _query(rng, "relation", stated, **shapes, side=side, to=to)
    places = "; ".join(BY_SHAPE.format(**thing.traits) for thing in (first, second))
    return replace(query, derived=True, steps=sentence(places))


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
    there = place_phrase(rng, thing.place)
    return say_sentence(rng, "description.asked_thing", thing=an(thing.name), there=there)


def tally(rng: random.Random, scene: Scene, shapes: Collection[str]) -> str:
    """List every thing, with a running number if its shape is one of `shapes`, else with "no"."""
    numbers = iter(NUMBERS)
    things = [
        f"{thing.name} {next(numbers) if thing.shape in shapes else 'no'}" for thing in scene.things
    ]
    return say_sentence(rng, "description.count", things=", ".join(things))


def extreme_bar_query(rng: random.Random, chart: Chart) -> Query | None:
    """Ask which bar is the tallest or the shortest."""
    word, pick = rng.choice((("tallest", max), ("shortest", min)))
    bar = pick(chart.bars, key=lambda bar: bar.value)
    stated = fact("chart", bar.colour, tuple(COLOURS), "extreme_bar", word=word)
    query = _query(rng, "extreme_bar", stated, word=word, colour=bar.colour)
    return replace(query, evidence=describe(rng, chart), derived=True)


def bar_value_query(rng: random.Random, chart: Chart) -> Query | None:
    """Ask for the value of a bar."""
    bar = rng.choice(chart.bars)
    question = say(rng, "bar.question", colour=bar.colour)
    clause = "the " + bar_in_words(rng, bar)
    return Query(question, clause, describe(rng, chart), bar_fact(bar))


def word_query(rng: random.Random, word: Word) -> Query | None:
    """Ask what word is written."""
    clause = say(rng, "word.clause", w=word.text)
    question, stated = say(rng, "word.question"), word_fact(rng, word)
    return Query(question, clause, describe(rng, word), stated, derived=True)


def ink_query(rng: random.Random, word: Word) -> Query | None:
    """Ask for the colour of the letters."""
    query = _query(rng, "ink", ink_fact(word), c=word.colour)
    return replace(query, evidence=describe(rng, word))


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
    number, objects = NUMBERS[left - 1], "object" if left == 1 else "objects"
    stated = fact("count", number, NUMBERS, "left_over")
    query = _query(rng, "left_over", stated, n=number, objects=objects, shape=shape)
    return replace(query, derived=True, steps=tally(rng, scene, {*SHAPES} - {shape}))


SCENE_QUERIES: tuple[tuple[Maker, QueryMaker], ...] = (
    (few_things, colour_query),
    (few_things, shape_query),
    (many_things, count_query),
    (few_things, place_query),
    (few_things, thing_at_query),
    (two_apart, relation_query),
    (few_things, background_query),
)
# A model needs more examples of counting and of relations than of other questions.
SCENE_WEIGHTS = (2, 2, 4, 2, 2, 3, 2)
CHART_QUERIES: tuple[QueryMaker, ...] = (extreme_bar_query, bar_value_query, bar_value_query)
WORD_QUERIES: tuple[QueryMaker, ...] = (word_query, word_query, word_query, ink_query)


def draw_for_query(
    rng: random.Random, split: Split, make: Maker, maker: QueryMaker
) -> tuple[Drawing, Query]:
    """Draw contents of the split until `maker` has a question about one; return both."""
    while True:
        drawing = draw_in_split(split, make, rng)
        if query := maker(rng, drawing):
            return drawing, query


def draw_query(kind: str, rng: random.Random, split: Split) -> tuple[Drawing, Query]:
    """Choose a question about a picture of a kind, "scene", "chart" or "word", and draw both."""
    if kind == "scene":
        return draw_for_query(rng, split, *rng.choices(SCENE_QUERIES, SCENE_WEIGHTS)[0])
    if kind == "chart":
        return draw_for_query(rng, split, bar_chart, rng.choice(CHART_QUERIES))
    return draw_for_query(rng, split, written_word, rng.choice(WORD_QUERIES))


def draw_any_query(rng: random.Random, split: Split) -> tuple[Drawing, Query]:
    """Draw any kind of picture, mostly a scene, and a question about it."""
    return draw_query(rng.choice(("scene", "scene", "scene", "chart", "word")), rng, split)


def queries_about(rng: random.Random, drawing: Drawing, count: int) -> list[Query]:
    """Return up to `count` different questions about a drawing."""
    makers: Sequence[QueryMaker]
    match drawing:
        case Scene():
            makers = [maker for _, maker in SCENE_QUERIES]
            if all(drawing.count(thing.shape) == 1 for thing in drawing.things):
                makers = [maker for maker in makers if maker is not count_query]
        case Chart():
            makers = (extreme_bar_query, bar_value_query, background_query)
        case Word():
            makers = (word_query, ink_query, background_query)
    queries = (maker(rng, drawing) for maker in rng.sample(list(makers), len(makers)))
    return [query for query in queries if query][:count]


def explain(rng: random.Random, query: Query) -> str:
    """Answer with the evidence: before a derived answer, before or after any other."""
    if query.derived or rng.random() < 0.65:
        parts = [maybe_sentence(rng, 0.4, "answer.opening"), query.evidence, conclude(rng, query)]
    else:
        verdict = f"{query.verdict}, " if query.verdict else ""
        parts = [sentence(verdict + query.clause), query.evidence]
    return join_sentences(*parts, maybe_sentence(rng, 0.3, "answer.closing"))


def conclude(rng: random.Random, query: Query) -> str:
    """State the steps and the answer, without the evidence."""
    link = "answer.verdict" if query.verdict else "answer.conclusion"
    return join_sentences(query.steps, say_sentence(rng, link, c=query.clause, v=query.verdict))


def reply(rng: random.Random, query: Query) -> str:
    """Answer as in a chat: mostly one sentence, or with reasons if the answer is derived."""
    if query.derived or rng.random() < 0.3:
        return explain(rng, query)
    clause = say_sentence(rng, "answer.short", c=query.clause)
    return join_sentences(clause, query.evidence if rng.random() < 0.25 else "")
