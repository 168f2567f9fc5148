"""The contents of pictures: scenes of coloured shapes, bar charts and written words."""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace

from mmspec_world import drawing
from mmspec_world.drawing import COLOURS, NUMBERS, PLACES, SHAPES, Mark, Point

DARK = (40, 40, 44)


@dataclass(frozen=True, slots=True)
class Thing:
    """One shape in one of the nine places."""

    colour: str
    shape: str
    place: int

    @property
    def name(self) -> str:
        """The thing's colour and shape, such as "red star"."""
        return f"{self.colour} {self.shape}"

    @property
    def traits(self) -> dict[str, str]:
        """The names of the thing's colour, shape and place."""
        return {"colour": self.colour, "shape": self.shape, "place": PLACES[self.place]}


@dataclass(frozen=True, slots=True)
class Scene:
    """Things in reading order on a background."""

    background: str
    things: tuple[Thing, ...]

    @property
    def key(self) -> str:
        """The content as text: background, then colour, shape and place of every thing."""
        things = ", ".join(f"{t.name} {PLACES[t.place]}" for t in self.things)
        return f"scene {self.background}: {things}"

    def count(self, shape: str) -> int:
        """Return the number of things with this shape."""
        return sum(thing.shape == shape for thing in self.things)

    def singles(self, trait: str) -> list[Thing]:
        """Return the things whose trait, "colour", "shape" or "place", is unique in the scene."""
        names = [thing.traits[trait] for thing in self.things]
        return [thing for thing in self.things if names.count(thing.traits[trait]) == 1]

    def recolour(self, rng: random.Random, thing: Thing) -> Thing:
        """Return one of the scene's things in another colour that the others allow."""
        present = {other.colour for other in self.things if other is not thing}
        choices = set(drawing.allowed_colours(self.background, present)) - {thing.colour}
        return replace(thing, colour=rng.choice(sorted(choices)))

    def new_shape(self, rng: random.Random) -> str:
        """Return a random shape that no thing of the scene has."""
        return rng.choice([shape for shape in SHAPES if not self.count(shape)])

    def free_place(self, rng: random.Random) -> int:
        """Return a random place of the scene without a thing."""
        return rng.choice(sorted(set(range(9)) - {thing.place for thing in self.things}))

    def marks(self, rng: random.Random) -> list[Mark]:
        """Return the scene as marks, with random offsets of place, size, angle and shade."""
        has_outline = rng.random() < 0.3
        alone = len(self.things) == 1
        return [_thing_mark(rng, thing, has_outline, alone) for thing in self.things]


def scene_of(background: str, things: Iterable[Thing]) -> Scene:
    """Return a scene with the things in reading order."""
    return Scene(background, tuple(sorted(things, key=lambda thing: thing.place)))


def few_things(rng: random.Random) -> Scene:
    """Draw a scene of one to four things of different shapes, mostly of different colours."""
    background = drawing.choose_background(rng)
    count = rng.choices((1, 2, 3, 4), (2, 4, 4, 1))[0]
    colours = drawing.choose_colours(rng, min(count, 3), background)
    colours += rng.choices(colours, k=count - len(colours))
    shapes, places = rng.sample(SHAPES, count), rng.sample(range(9), count)
    return scene_of(background, map(Thing, colours, shapes, places))


def many_things(rng: random.Random) -> Scene:
    """Draw a scene of one to five things of one shape and up to two others, at most five in all."""
    background = drawing.choose_background(rng)
    shape, *others = rng.sample(SHAPES, 3)
    count = rng.randint(1, 5)
    extra = rng.randint(0, min(2, 5 - count))
    shapes = [shape] * count + rng.sample(others, extra)
    choices = drawing.choose_colours(rng, rng.randint(1, 3), background)
    places = rng.sample(range(9), len(shapes))
    colours = (rng.choice(choices) for _ in shapes)
    return scene_of(background, map(Thing, colours, shapes, places))


def two_apart(rng: random.Random) -> Scene:
    """Draw a scene of two to four things of different shapes, for questions about two of them."""
    while len((scene := few_things(rng)).things) < 2:
        pass
    return scene


def _thing_mark(rng: random.Random, thing: Thing, has_outline: bool, alone: bool) -> Mark:
    radius = rng.uniform(15, 20.5) / 144
    if alone and thing.place == 4 and rng.random() < 0.5:
        radius *= rng.uniform(1.2, 2.4)
    x = (thing.place % 3) / 3 + 1 / 6 + rng.uniform(-3.5, 3.5) / 144
    y = (thing.place // 3) / 3 + 1 / 6 + rng.uniform(-3.5, 3.5) / 144
    angle = math.radians(rng.uniform(-9, 9))
    cosine, sine = radius * math.cos(angle), radius * math.sin(angle)
    points = tuple(
        (x + u * cosine - v * sine, y + u * sine + v * cosine) for u, v in OUTLINES[thing.shape]
    )
    shade = drawing.tint(rng, COLOURS[thing.colour])
    labels = {"colour": thing.colour, "shape": thing.shape}
    return Mark(points, shade, DARK if has_outline else None, labels)


def _round(corners: int, radii: tuple[float, ...]) -> tuple[Point, ...]:
    turn = 2 * math.pi / corners
    return tuple(
        (radii[i % len(radii)] * math.sin(i * turn), -radii[i % len(radii)] * math.cos(i * turn))
        for i in range(corners)
    )


# Corners around the origin, in radii.
OUTLINES: dict[str, tuple[Point, ...]] = {
    "circle": _round(36, (1.0,)),
    "square": ((-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)),
    "triangle": ((0.0, -1.0), (1.0, 0.85), (-1.0, 0.85)),
    "star": _round(10, (1.15, 0.48)),
    "diamond": ((0.0, -1.15), (0.8, 0.0), (0.0, 1.15), (-0.8, 0.0)),
    "cross": (
        (-0.33, -1.0), (0.33, -1.0), (0.33, -0.33), (1.0, -0.33), (1.0, 0.33), (0.33, 0.33),
        (0.33, 1.0), (-0.33, 1.0), (-0.33, 0.33), (-1.0, 0.33), (-1.0, -0.33), (-0.33, -0.33),
    ),
}  # fmt: skip


FLOOR, UNIT = 0.90, 0.16
LEFT, WIDTH = 0.08, 0.86


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar's colour and its value, from 1 to 5."""

    colour: str
    value: int

    @property
    def number(self) -> str:
        """The bar's value in words."""
        return NUMBERS[self.value - 1]


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars of different colours and values, from left to right."""

    background: str
    bars: tuple[Bar, ...]

    @property
    def key(self) -> str:
        """The content as text: background, then colour and value of every bar."""
        bars = ", ".join(f"{bar.colour} {bar.value}" for bar in self.bars)
        return f"chart {self.background}: {bars}"

    @property
    def tallest(self) -> Bar:
        """The bar with the largest value."""
        return max(self.bars, key=lambda bar: bar.value)

    def marks(self, rng: random.Random) -> list[Mark]:
        """Return the marks: a gridline at every unit, the axis and the bars."""
        ink = (120, 120, 124) if self.background != "navy" else (150, 155, 180)
        units = (FLOOR - UNIT * n for n in range(6))
        lines = [Mark(_box(LEFT, y - 0.002, LEFT + WIDTH, y + 0.002), ink) for y in units]
        marks = [*lines, Mark(_box(LEFT - 0.008, FLOOR - 5 * UNIT, LEFT + 0.004, FLOOR), ink)]
        pitch = WIDTH / len(self.bars)
        half = pitch * rng.uniform(0.28, 0.40)
        outline = DARK if rng.random() < 0.3 else None
        for i, bar in enumerate(self.bars):
            x, shade = LEFT + pitch * (i + 0.5), drawing.tint(rng, COLOURS[bar.colour])
            box = _box(x - half, FLOOR - UNIT * bar.value, x + half, FLOOR)
            labels = {"colour": bar.colour, "shape": "bar", "value": bar.number}
            marks.append(Mark(box, shade, outline, labels))
        return marks


def bar_chart(rng: random.Random) -> Chart:
    """Draw a chart of three or four bars with different colours and values."""
    background = drawing.choose_background(rng)
    count = rng.choice((3, 4))
    colours = drawing.choose_colours(rng, count, background)
    values = rng.sample(range(1, 6), count)
    return Chart(background, tuple(map(Bar, colours, values)))


def _box(left: float, top: float, right: float, bottom: float) -> tuple[Point, ...]:
    return (left, top), (right, top), (right, bottom), (left, bottom)


CONSONANTS, VOWELS = "BCDFGHJKLMNPRSTVWXZ", "AEIOU"
PATTERNS = ("CVC", "CVC", "CVCV", "CVCC", "CCVC", "VCVC", "CVVC")
CAP_HEIGHT = 0.71


@dataclass(frozen=True, slots=True)
class Word:
    """A word, the colour of its letters and its card."""

    background: str
    colour: str
    text: str

    @property
    def key(self) -> str:
        """The letters alone, so that training shows a held-out word in no colour."""
        return f"word {self.text}"

    def marks(self, rng: random.Random) -> list[Mark]:
        """Return the letters as marks, from left to right, near the middle of the card."""
        tracking = rng.uniform(0.03, 0.10)
        widths = [drawing.letter_advance(letter) + tracking for letter in self.text]
        em = min(rng.uniform(0.27, 0.42), 0.94 / sum(widths))
        x = 0.5 - em * sum(widths) / 2 + rng.uniform(-1, 1) * (0.97 - em * sum(widths)) / 2
        y = 0.5 + em * CAP_HEIGHT / 2 + rng.uniform(-0.15, 0.15)
        shade, bold = drawing.tint(rng, COLOURS[self.colour]), rng.random() < 0.6
        marks = []
        for letter, width in zip(self.text, widths, strict=True):
            point = (x + em * tracking / 2, y)
            labels = {"colour": self.colour, "character": letter}
            marks.append(Mark((point,), shade, labels=labels, em=em, bold=bold))
            x += em * width
        return marks


def written_word(rng: random.Random) -> Word:
    """Draw a pronounceable word of three or four letters, real or not."""
    background = drawing.choose_background(rng)
    letters = {"C": CONSONANTS, "V": VOWELS}
    text = "".join(rng.choice(letters[kind]) for kind in rng.choice(PATTERNS))
    return Word(background, drawing.choose_colours(rng, 1, background)[0], text)


Drawing = Scene | Chart | Word
"""The content of one picture."""
