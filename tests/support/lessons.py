"""Conversations in LLaVA's instruction format, some with images of random pixels."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image


def write_lessons(folder: Path, images: Callable[[int], int], count: int = 40) -> Path:
    """Write lines of two turns each; images: how many the conversation of a number has."""
    draws, lines = np.random.default_rng(0), []
    for number in range(count):
        names = [f"{number}-{each}.png" for each in range(images(number))]
        for name in names:
            Image.fromarray(draws.integers(0, 255, (32, 32, 3), np.uint8)).save(folder / name)
        asked = "<image>\n" * len(names) + f"How many are {number}?"
        said = [("human", asked), ("gpt", f"There are {number}."), ("human", "And?")]
        turns = [{"from": who, "value": text} for who, text in [*said, ("gpt", "No more.")]]
        lines.append(json.dumps({"image": names, "conversations": turns}))
    file = folder / "lines.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return file
