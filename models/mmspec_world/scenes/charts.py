"""Bar charts. A bar's height shows its value."""

import random
from dataclasses import dataclass

from mmspec_world.scenes.draw import Mark
from mmspec_world.scenes.palette import (
    COLOURS,
    NUMBERS,
    Rgb,
    choose_background,
    choose_colours,
    tint,
)

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
        lines = [_line(LEFT, FLOOR - UNIT * n, LEFT + WIDTH, ink) for n in range(6)]
        axis = Mark(_box(LEFT - 0.008, FLOOR - 5 * UNIT, LEFT + 0.004, FLOOR), ink)
        return [*lines, axis, *self._bars(rng)]

    def _bars(self, rng: random.Random) -> list[Mark]:
        pitch = WIDTH / len(self.bars)
        half = pitch * rng.uniform(0.28, 0.40)
        outline = (40, 40, 44) if rng.random() < 0.3 else None
        return [
            Mark(
                _box(
                    LEFT + pitch * (i + 0.5) - half,
                    FLOOR - UNIT * bar.value,
                    LEFT + pitch * (i + 0.5) + half,
                    FLOOR,
                ),
                tint(rng, COLOURS[bar.colour]),
                outline,
                bar.colour,
                "bar",
                bar.value,
            )
            for i, bar in enumerate(self.bars)
        ]


def bar_chart(rng: random.Random) -> Chart:
    """Draw a chart of three or four bars with different colours and values."""
    background = choose_background(rng)
    count = rng.choice((3, 4))
    colours = choose_colours(rng, count, background)
    values = rng.sample(range(1, 6), count)
    return Chart(background, tuple(map(Bar, colours, values)))


def _box(left: float, top: float, right: float, bottom: float) -> tuple[tuple[float, float], ...]:
    return (left, top), (right, top), (right, bottom), (left, bottom)


def _line(left: float, y: float, right: float, ink: Rgb) -> Mark:
    return Mark(_box(left, y - 0.002, right, y + 0.002), ink)
