"""Draws pictures together with questions about them."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from mmspec_world.answers.descriptions import Drawing
from mmspec_world.facts import Query
from mmspec_world.questions import scene_questions
from mmspec_world.questions.chart_questions import (
    bar_value_query,
    extreme_bar_query,
    ink_query,
    word_query,
)
from mmspec_world.scenes.charts import Chart, bar_chart
from mmspec_world.scenes.scene import Scene, few_things, many_things, two_apart
from mmspec_world.scenes.words import Word, written_word
from mmspec_world.split import Split, draw_in_split

D = TypeVar("D", Scene, Chart, Word)
QueryMaker = Callable[[random.Random, D], Query | None]
"""Function that asks a question about a drawing; None if the drawing does not allow it."""


SCENE_QUERIES: tuple[tuple[Callable[[random.Random], Scene], QueryMaker[Scene]], ...] = (
    (few_things, scene_questions.colour_query),
    (few_things, scene_questions.shape_query),
    (many_things, scene_questions.count_query),
    (few_things, scene_questions.place_query),
    (few_things, scene_questions.thing_at_query),
    (two_apart, scene_questions.relation_query),
    (few_things, scene_questions.background_query),
)
# A model needs more examples of counting and of relations than of other questions.
SCENE_WEIGHTS = (2, 2, 4, 2, 2, 3, 2)
CHART_QUERIES = (extreme_bar_query, bar_value_query, bar_value_query)
WORD_QUERIES = (word_query, word_query, word_query, ink_query)


def draw_for_query(
    rng: random.Random, split: Split, make: Callable[[random.Random], D], maker: QueryMaker[D]
) -> tuple[D, Query]:
    """Draw contents of the split until `maker` has a question about one; return both."""
    while True:
        drawing = draw_in_split(split, make, rng)
        if query := maker(rng, drawing):
            return drawing, query


def draw_scene_query(rng: random.Random, split: Split) -> tuple[Drawing, Query]:
    """Choose a kind of question about scenes and draw a scene for it."""
    return draw_for_query(rng, split, *rng.choices(SCENE_QUERIES, SCENE_WEIGHTS)[0])


def draw_chart_query(rng: random.Random, split: Split) -> tuple[Drawing, Query]:
    """Draw a chart and a question about it."""
    return draw_for_query(rng, split, bar_chart, rng.choice(CHART_QUERIES))


def draw_word_query(rng: random.Random, split: Split) -> tuple[Drawing, Query]:
    """Draw a written word and a question about it."""
    return draw_for_query(rng, split, written_word, rng.choice(WORD_QUERIES))


QUERY_KINDS: tuple[Callable[[random.Random, Split], tuple[Drawing, Query]], ...] = (
    draw_scene_query,
    draw_scene_query,
    draw_scene_query,
    draw_chart_query,
    draw_word_query,
)


def draw_any_query(rng: random.Random, split: Split) -> tuple[Drawing, Query]:
    """Draw any kind of picture, mostly a scene, and a question about it."""
    return rng.choice(QUERY_KINDS)(rng, split)


def queries_about(rng: random.Random, drawing: Drawing, count: int) -> list[Query]:
    """Return up to `count` different questions about a drawing."""
    makers: Sequence[Callable[..., Query | None]]
    match drawing:
        case Scene():
            makers = [maker for _, maker in SCENE_QUERIES]
            if all(drawing.count(thing.shape) == 1 for thing in drawing.things):
                makers = [maker for maker in makers if maker is not scene_questions.count_query]
        case Chart():
            makers = (extreme_bar_query, bar_value_query, scene_questions.background_query)
        case Word():
            makers = (word_query, ink_query, scene_questions.background_query)
    queries = (maker(rng, drawing) for maker in rng.sample(list(makers), len(makers)))
    return [query for query in queries if query][:count]
