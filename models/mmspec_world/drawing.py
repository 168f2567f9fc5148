"""Names and colours, and pictures as lists of marks: an image, or a grid of labels."""

import functools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Rgb = tuple[int, int, int]

COLOURS: dict[str, Rgb] = {
    "red": (218, 32, 38),
    "green": (34, 150, 60),
    "blue": (34, 92, 224),
    "yellow": (250, 220, 30),
    "orange": (248, 134, 18),
    "purple": (128, 40, 168),
    "pink": (248, 140, 196),
    "black": (22, 22, 24),
}
BACKGROUNDS: dict[str, Rgb] = {
    "white": (253, 253, 253),
    "grey": (186, 188, 190),
    "cream": (248, 234, 200),
    "mint": (192, 240, 214),
    "navy": (24, 32, 84),
}
BACKGROUND_WEIGHTS = (32, 17, 17, 17, 17)
SHAPES = ("circle", "square", "triangle", "star", "diamond", "cross")
NUMBERS = ("one", "two", "three", "four", "five")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

# Row by row, so that place number p lies in row p // 3 and column p % 3.
PLACES = (
    "top left", "top", "top right",
    "left", "centre", "right",
    "bottom left", "bottom", "bottom right",
)  # fmt: skip

# Colours that look alike never share a picture.
CLASHES: dict[str, frozenset[str]] = {
    "red": frozenset({"orange"}),
    "green": frozenset({"mint"}),
    "blue": frozenset({"purple", "navy"}),
    "yellow": frozenset({"orange", "cream"}),
    "orange": frozenset({"red", "yellow"}),
    "purple": frozenset({"pink", "blue", "navy"}),
    "pink": frozenset({"purple"}),
    "black": frozenset({"navy"}),
}


def choose_background(rng: random.Random) -> str:
    """Draw a background's name; white is the most common."""
    return rng.choices(tuple(BACKGROUNDS), BACKGROUND_WEIGHTS)[0]


def choose_colours(rng: random.Random, count: int, background: str) -> list[str]:
    """Draw `count` different colours that clash neither with each other nor the background."""
    colours: list[str] = []
    for colour in rng.sample(tuple(COLOURS), len(COLOURS)):
        if not CLASHES[colour].intersection((background, *colours)):
            colours.append(colour)
    return colours[:count] if len(colours) >= count else choose_colours(rng, count, background)


def allowed_colours(background: str, present: set[str]) -> list[str]:
    """Return the colours that clash neither with the background nor with `present`."""
    names = present | {background}
    return [colour for colour in COLOURS if not CLASHES[colour] & names]


def tint(rng: random.Random, rgb: Rgb, amount: int = 12) -> Rgb:
    """Vary an RGB value slightly, each channel by at most `amount`."""
    red, green, blue = (min(255, max(0, c + rng.randint(-amount, amount))) for c in rgb)
    return red, green, blue


Point = tuple[float, float]
Labels = dict[str, npt.NDArray[np.int64]]

LABEL_WORDS: dict[str, tuple[str, ...]] = {
    "colour": ("", *COLOURS),
    "shape": ("", *SHAPES, "bar"),
    "character": ("", *LETTERS),
    "value": ("", *NUMBERS),
    "background": tuple(BACKGROUNDS),
}
LABELS = {name: len(words) for name, words in LABEL_WORDS.items()}
# Share of a cell that a mark must cover to label it.
LEAST_COVER = 0.2


@dataclass(frozen=True, slots=True)
class Mark:
    """A filled polygon, or one letter whose baseline starts at the first point.

    Points are fractions of the picture's side, y downwards; `em` is the letter's font size in the
    same unit. `labels` are words of LABEL_WORDS for the cells that it covers.
    """

    points: tuple[Point, ...]
    fill: Rgb
    outline: Rgb | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    em: float = 0.0
    bold: bool = False

    @property
    def letter(self) -> str:
        """The letter; empty for a polygon."""
        return self.labels.get("character", "")


def render(rng: random.Random, marks: Iterable[Mark], background: str, size: int) -> Image.Image:
    """Draw marks on a background as an RGB image of `size` x `size` pixels."""
    scale = rng.choice((1, 2))
    side = size * scale
    image = Image.new("RGB", (side, side), tint(rng, BACKGROUNDS[background], 6))
    pen = ImageDraw.Draw(image)
    for mark in marks:
        _draw(pen, mark, side, mark.fill, mark.outline)
    if scale == 2:
        image = image.reduce(2)
    return _add_noise(rng, image) if rng.random() < 0.5 else image


def label(marks: Iterable[Mark], background: str, grid: int) -> Labels:
    """Label each cell of a grid x grid raster with the mark that covers most of the cell."""
    side = 12 * grid
    names = [name for name in LABELS if name != "background"]
    layers = {name: Image.new("L", (side, side)) for name in names}
    for mark in marks:
        for name, word in mark.labels.items():
            pen, number = ImageDraw.Draw(layers[name]), LABEL_WORDS[name].index(word)
            pen.fontmode = "1"
            if name == "character":
                pen.rectangle(_letter_box(mark, side), fill=number)
            else:
                _draw(pen, mark, side, number, None)
    labels = {name: _per_cell(layers[name], LABELS[name], grid) for name in names}
    number = LABEL_WORDS["background"].index(background)
    labels["background"] = np.full((grid, grid), number, dtype=np.int64)
    return labels


def letter_advance(letter: str) -> float:
    """Return the width of a letter, in em."""
    return _font(100).getlength(letter) / 100


@functools.lru_cache(maxsize=256)
def _font(pixels: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size=pixels)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    return font


def _draw(
    pen: ImageDraw.ImageDraw, mark: Mark, side: int, fill: Rgb | int, outline: Rgb | None
) -> None:
    points = [(x * side, y * side) for x, y in mark.points]
    if mark.letter:
        stroke = side // 144 if mark.bold else 0
        font = _font(round(mark.em * side))
        pen.text(points[0], mark.letter, fill, font, anchor="ls", stroke_width=stroke)
    else:
        pen.polygon(points, fill, outline, width=max(1, side // 96))


def _letter_box(mark: Mark, side: int) -> tuple[float, float, float, float]:
    x, y = mark.points[0][0] * side, mark.points[0][1] * side
    left, top, right, bottom = _font(round(mark.em * side)).getbbox(mark.letter, anchor="ls")
    return left + x, top + y, right + x, bottom + y


def _per_cell(layer: Image.Image, classes: int, grid: int) -> npt.NDArray[np.int64]:
    pixels = np.asarray(layer, dtype=np.int64)
    side = pixels.shape[0]
    row = np.arange(side) * grid // side
    cell = row[:, None] * grid + row[None, :]
    counts = np.bincount((cell * classes + pixels).ravel(), minlength=grid * grid * classes)
    cover = counts.reshape(grid, grid, classes)[..., 1:]
    is_labelled = cover.max(axis=-1) >= LEAST_COVER * (side / grid) ** 2
    return np.where(is_labelled, 1 + cover.argmax(axis=-1), 0)


@functools.cache
def _noise() -> npt.NDArray[np.int16]:
    return np.random.default_rng(0).normal(0, 5, (512, 512, 3)).astype(np.int16)


def _add_noise(rng: random.Random, image: Image.Image) -> Image.Image:
    side = image.width
    room = max(1, 512 - side)
    x, y = rng.randrange(room), rng.randrange(room)
    noise = np.resize(_noise()[y : y + side, x : x + side], (side, side, 3))
    noisy = np.clip(np.asarray(image, dtype=np.int16) + noise, 0, 255)
    return Image.fromarray(noisy.astype(np.uint8))
