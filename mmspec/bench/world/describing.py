"""Descriptions: what each kind of picture shows, in words."""

import random

from mmspec.bench.world.charts import Bar, Chart
from mmspec.bench.world.palette import NUMBERS
from mmspec.bench.world.phrasing import an, at, listed, placed, say, sentence
from mmspec.bench.world.scene import Scene
from mmspec.bench.world.words import Word

Picture = Scene | Chart | Word

SHOWS = (
    "[the|this] [picture|image|drawing] [shows|contains|has] {things}",
    "[in the picture|here|in this image], [I can see|there is|we find] {things}",
    "[I can see|I see|there is] {things}[ in the picture|]",
    "what [we see|is drawn] here is {things}",
)
SCATTERED = (
    "{there} [there is|I can see|I find] {thing}",
    "{thing} [is drawn|sits|stands|appears] {there}",
    "{thing} [can be seen|can be found] {there}",
)
BACKDROP = (
    "[the background is {b}|the background of the picture is {b}]",
    "everything [is drawn|lies|is placed] on a {b} background",
    "[all of this|this] [is|stands] on a {b} background",
)
REACHES = "[reaches|has a value of|stands at]"
READ_BARS = (
    "from left to right, {bars}",
    "the chart has {n} bars: {bars}",
    "reading the [chart|bars] from the left, {bars}",
    "[I look at|I compare] the {n} bars: {bars}",
)
SPELL = (
    "the letters [from left to right |]are {letters}",
    "[there are|I see] {n} letters: {letters}",
    "[I spell|spelled out, it is] {letters}",
    "it is written in {c} letters: {letters}",
)


def describe(rng: random.Random, picture: Picture) -> str:
    """Describe a picture, short of its background."""
    match picture:
        case Scene():
            return inventory(rng, picture) if rng.random() < 0.7 else tour(rng, picture)
        case Chart():
            return bars_in_words(rng, picture)
        case Word():
            return spelling(rng, picture)


def inventory(rng: random.Random, scene: Scene) -> str:
    """List every thing with its place in one sentence, in reading order."""
    things = listed([placed(rng, thing) for thing in scene.things])
    return sentence(say(rng, SHOWS, things=things))


def tour(rng: random.Random, scene: Scene) -> str:
    """Give every thing a sentence of its own."""
    return " ".join(
        sentence(say(rng, SCATTERED, there=at(rng, thing.place), thing=an(thing.name)))
        for thing in scene.things
    )


def backdrop(rng: random.Random, background: str) -> str:
    """Say what the background is."""
    return sentence(say(rng, BACKDROP, b=background))


def bar_in_words(rng: random.Random, bar: Bar) -> str:
    """Say a bar's value: "red bar reaches three"."""
    return say(rng, f"{{c}} bar {REACHES} {{n}}", c=bar.colour, n=bar.number)


def bars_in_words(rng: random.Random, chart: Chart) -> str:
    """Read a chart from left to right."""
    bars = listed([f"the {bar_in_words(rng, bar)}" for bar in chart.bars])
    return sentence(say(rng, READ_BARS, n=NUMBERS[len(chart.bars) - 1], bars=bars))


def spelling(rng: random.Random, word: Word) -> str:
    """Read the letters one by one."""
    return sentence(
        say(rng, SPELL, letters=word.spelled, c=word.colour, n=NUMBERS[len(word.text) - 1])
    )
