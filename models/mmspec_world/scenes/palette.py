"""Names of colours, backgrounds, shapes, places and numbers, and their RGB values."""

import random

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
    taken = present | {background}
    return [colour for colour in COLOURS if not CLASHES[colour] & taken]


def tint(rng: random.Random, rgb: Rgb, amount: int = 12) -> Rgb:
    """Vary an RGB value slightly, each channel by at most `amount`."""
    red, green, blue = (min(255, max(0, c + rng.randint(-amount, amount))) for c in rgb)
    return red, green, blue
