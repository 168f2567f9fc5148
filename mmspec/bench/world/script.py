"""What a task makes: the pictures to draw and the turns about them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mmspec.bench.world.asks import (
    Ask,
    ask_background,
    ask_colour,
    ask_count,
    ask_place,
    ask_relation,
    ask_shape,
    ask_what_is_at,
)
from mmspec.bench.world.charts import Chart, bar_chart
from mmspec.bench.world.describing import Picture
from mmspec.bench.world.facts import Turn
from mmspec.bench.world.readings import ask_bar_value, ask_extreme_bar, ask_ink, ask_word
from mmspec.bench.world.scene import Scene, few_things, many_things, two_apart
from mmspec.bench.world.split import Split, within
from mmspec.bench.world.words import Word, written_word

P = TypeVar("P", Scene, Chart, Word)
Asker = Callable[[random.Random, P], Ask | None]


@dataclass(frozen=True, slots=True)
class Script:
    """Pictures and turns; `keys` are the keys of the contents that belong to the split."""

    pictures: tuple[Picture, ...]
    turns: tuple[Turn, ...]
    keys: tuple[str, ...]


SCENE_ASKS: tuple[tuple[Callable[[random.Random], Scene], Asker[Scene]], ...] = (
    (few_things, ask_colour),
    (few_things, ask_shape),
    (many_things, ask_count),
    (few_things, ask_place),
    (few_things, ask_what_is_at),
    (two_apart, ask_relation),
    (few_things, ask_background),
)
# Counting and relations take more practice than the rest.
SCENE_WEIGHTS = (2, 2, 4, 2, 2, 3, 2)
CHART_ASKS = (ask_extreme_bar, ask_bar_value, ask_bar_value)
WORD_ASKS = (ask_word, ask_word, ask_word, ask_ink)


def picture_of(
    rng: random.Random, split: Split, make: Callable[[random.Random], P], asker: Asker[P]
) -> tuple[P, Ask]:
    """Make a picture of the split that the question can be asked about, and the question."""
    while True:
        picture = within(split, make, rng)
        if ask := asker(rng, picture):
            return picture, ask


def scene_ask(rng: random.Random, split: Split) -> tuple[Picture, Ask]:
    """Choose a kind of question about scenes and make a scene for it."""
    return picture_of(rng, split, *rng.choices(SCENE_ASKS, SCENE_WEIGHTS)[0])


def chart_ask(rng: random.Random, split: Split) -> tuple[Picture, Ask]:
    """Make a chart and a question about it."""
    return picture_of(rng, split, bar_chart, rng.choice(CHART_ASKS))


def word_ask(rng: random.Random, split: Split) -> tuple[Picture, Ask]:
    """Make a written word and a question about it."""
    return picture_of(rng, split, written_word, rng.choice(WORD_ASKS))


ANY_ASK: tuple[Callable[[random.Random, Split], tuple[Picture, Ask]], ...] = (
    scene_ask,
    scene_ask,
    scene_ask,
    chart_ask,
    word_ask,
)


def any_ask(rng: random.Random, split: Split) -> tuple[Picture, Ask]:
    """Make a picture of any kind and a question about it; scenes are the most common."""
    return rng.choice(ANY_ASK)(rng, split)


def asks_about(rng: random.Random, picture: Picture, count: int) -> list[Ask]:
    """Ask up to `count` different questions about a picture."""
    askers: Sequence[Callable[..., Ask | None]]
    match picture:
        case Scene():
            askers = [asker for _, asker in SCENE_ASKS]
            if all(picture.count(thing.shape) == 1 for thing in picture.things):
                askers = [asker for asker in askers if asker is not ask_count]
        case Chart():
            askers = (ask_extreme_bar, ask_bar_value, ask_background)
        case Word():
            askers = (ask_word, ask_ink, ask_background)
    asks = (asker(rng, picture) for asker in rng.sample(list(askers), len(askers)))
    return [ask for ask in asks if ask][:count]
