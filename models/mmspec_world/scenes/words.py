"""Written words: three or four capital letters on a card."""

import random
from dataclasses import dataclass

from mmspec_world.scenes.draw import Mark, letter_advance
from mmspec_world.scenes.palette import COLOURS, choose_background, choose_colours, tint

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

    @property
    def spelled(self) -> str:
        """The word's letters, separated by commas."""
        return ", ".join(self.text)

    def marks(self, rng: random.Random) -> list[Mark]:
        """Return the letters as marks, from left to right, near the middle of the card."""
        tracking = rng.uniform(0.03, 0.10)
        widths = [letter_advance(letter) + tracking for letter in self.text]
        em = min(rng.uniform(0.27, 0.42), 0.94 / sum(widths))
        x = 0.5 - em * sum(widths) / 2 + rng.uniform(-1, 1) * (0.97 - em * sum(widths)) / 2
        y = 0.5 + em * CAP_HEIGHT / 2 + rng.uniform(-0.15, 0.15)
        shade, bold = tint(rng, COLOURS[self.colour]), rng.random() < 0.6
        marks = []
        for letter, width in zip(self.text, widths, strict=True):
            point = (x + em * tracking / 2, y)
            marks.append(Mark((point,), shade, colour=self.colour, letter=letter, em=em, bold=bold))
            x += em * width
        return marks


def written_word(rng: random.Random) -> Word:
    """Draw a pronounceable word of three or four letters, real or not."""
    background = choose_background(rng)
    letters = {"C": CONSONANTS, "V": VOWELS}
    text = "".join(rng.choice(letters[kind]) for kind in rng.choice(PATTERNS))
    return Word(background, choose_colours(rng, 1, background)[0], text)
