"""Writes the prompts that heads of SmolLM2-135M-Instruct learn from, and those that measure them.

    python tests/real/head_prompts.py FOLDER MMSPEC

`training.jsonl` is for `mmspec train distill --data`: functions of PyTorch, transformers and numpy,
their documentation, paragraphs of installed packages' descriptions, and MMSpec's questions of two
topics.  Each other file is a suite of `mmspec bench run`, of which nothing is trained on.
"""

import json
import random
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from prompts import (
    CODE,
    DOCUMENTATION,
    LENGTHS,
    languages,
    letters,
    of_code,
    questions,
    standard_library,
)

PACKAGES = ("numpy", "torch", "transformers")
TRAINED = ("general vqa", "complex reasoning pro")
MEASURED = ("text vqa", "chart understanding", "multi-turn conversation")
FROM_CODE = 5000
"""Prompts to learn from that are about code and its documentation."""
MOST = 15
"""Most prompts of a kind that measure, as many as English letters; `--limit` takes fewer."""


def training(benchmark: Path) -> list[str]:
    """All prompts to learn from, in a random order."""
    asked = (text for topic, turns in questions(benchmark) if topic in TRAINED for text in turns)
    found = list(dict.fromkeys([*asked, *islice(of_code(modules()), FROM_CODE), *descriptions()]))
    random.Random(0).shuffle(found)
    return found


def modules() -> list[Path]:
    """The modules of PACKAGES, in a random order."""
    folders = [
        Path(spec.origin).parent for spec in map(find_spec, PACKAGES) if spec and spec.origin
    ]
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    random.Random(0).shuffle(files)
    return files


def descriptions() -> Iterator[str]:
    """The paragraphs of installed packages' descriptions."""
    packages = sorted(distributions(), key=lambda package: package.name)
    for text in (str(package.metadata.get_payload()) for package in packages):
        for paragraph in text.split("\n\n"):
            if len(paragraph) in LENGTHS:
                yield f"Summarize this text in one sentence.\n\n{paragraph}"


def measuring(benchmark: Path) -> dict[str, list[str]]:
    """The prompts that measure, by kind."""
    english, *others = languages()
    library = list(dict.fromkeys(of_code(standard_library())))
    random.Random(0).shuffle(library)
    return {
        **{
            topic: [turns[0] for own, turns in questions(benchmark) if own == topic]
            for topic in MEASURED
        },
        "letters english": letters(english),
        "letters other languages": [*chain(*zip(*map(letters, others), strict=True))],
        "code": [text for text in library if text.startswith(CODE)],
        "documentation": [text for text in library if text.startswith(DOCUMENTATION)],
    }


def main(folder: Path, benchmark: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    answer = {"from": "gpt", "value": ""}  # the target gives its own
    turns = ([{"from": "human", "value": text}, answer] for text in training(benchmark))
    write(folder / "training.jsonl", ({"conversations": turn} for turn in turns))
    for kind, texts in measuring(benchmark).items():
        file = folder / f"{kind.replace(' ', '-')}.jsonl"
        write(file, ({"prompt": text} for text in texts[:MOST]))


def write(file: Path, lines: Iterable[object]) -> None:
    """Write JSON lines."""
    texts = (json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    file.write_text("".join(texts), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
