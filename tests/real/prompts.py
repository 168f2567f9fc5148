"""Writes prompts as people send them, as JSON lines for `mmspec check --prompts`.

    python tests/real/prompts.py 1000 [FOLDER OF MMSPEC] > prompts.jsonl

Questions and letters in English, German, French and Spanish; functions of Python's library and its
documentation; and the questions of the MMSpec benchmark, without their images. All kinds are mixed,
so that the first hundred have some of each.
"""

import ast
import json
import random
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain, product
from pathlib import Path

TEXTS = Path(__file__).with_suffix(".toml")
MODULES = "argparse ast calendar configparser csv difflib email.message fractions functools heapq"
MODULES += (
    " inspect ipaddress random shutil statistics tarfile textwrap threading traceback zipfile"
)
CODE = "What does this function do?"
DOCUMENTATION = "Explain this documentation in simple words."
LENGTHS = range(200, 1500)
"""Characters of a function or of documentation."""


def prompts(count: int, benchmark: Path | None = None) -> list[str]:
    """`count` different prompts; of code and documentation as many as the other kinds leave."""
    turns = (turn for _, asked in questions(benchmark) for turn in asked) if benchmark else ()
    first = [*chain(*(in_language(name) for name in languages())), *turns]
    library = list(dict.fromkeys(of_code(standard_library())))
    random.Random(0).shuffle(library)
    chosen = list(dict.fromkeys([*first, *library]))[:count]
    random.Random(0).shuffle(chosen)
    return chosen


def languages() -> dict[str, dict[str, list[str]]]:
    """Questions, letters and tasks about a letter, by language."""
    return tomllib.loads(TEXTS.read_text(encoding="utf-8"))


def in_language(name: str) -> list[str]:
    """A language's questions, then its letters."""
    return [*languages()[name]["questions"], *letters(name)]


def letters(name: str) -> list[str]:
    """Every task about every letter of a language."""
    language = languages()[name]
    return [
        f"{task}\n\n{letter}" for task, letter in product(language["tasks"], language["letters"])
    ]


def questions(benchmark: Path) -> Iterator[tuple[str, list[str]]]:
    """The topic and the turns of each of MMSpec's samples."""
    lines = (benchmark / "test" / "mmspec.jsonl").read_text(encoding="utf-8").splitlines()
    for sample in map(json.loads, lines):
        yield sample["topic"], sample["turns"]


def standard_library() -> Iterator[Path]:
    """Modules of Python's library."""
    for name in MODULES.split():
        yield Path(import_module(name).__file__ or "")


def of_code(files: Iterable[Path]) -> Iterator[str]:
    """A question about each function of a usual length, and one about its documentation."""
    for file in files:
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                source = ast.get_source_segment(text, node) or ""
                documentation = ast.get_docstring(node) or ""
                if len(source) in LENGTHS:
                    yield f"{CODE}\n\n```python\n{source}\n```"
                if len(documentation) in LENGTHS:
                    yield f"{DOCUMENTATION}\n\n{documentation}"


if __name__ == "__main__":
    for text in prompts(int(sys.argv[1]), *map(Path, sys.argv[2:3])):
        sys.stdout.write(json.dumps({"prompt": text}, ensure_ascii=False) + "\n")
