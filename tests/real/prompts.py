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
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from pathlib import Path

TEXTS = Path(__file__).with_suffix(".toml")
MODULES = "argparse ast calendar configparser csv difflib email.message fractions functools heapq"
MODULES += (
    " inspect ipaddress random shutil statistics tarfile textwrap threading traceback zipfile"
)
LENGTHS = range(200, 1500)
"""Characters of a function or of documentation."""


def prompts(count: int, benchmark: Path | None = None) -> list[str]:
    """`count` different prompts; of code and documentation as many as the other kinds leave."""
    first = [*_in_languages(), *(_asked(benchmark) if benchmark else ())]
    library = list(dict.fromkeys(_of_library()))
    random.Random(0).shuffle(library)
    chosen = list(dict.fromkeys([*first, *library]))[:count]
    random.Random(0).shuffle(chosen)
    return chosen


def _in_languages() -> Iterator[str]:
    for language in tomllib.loads(TEXTS.read_text(encoding="utf-8")).values():
        yield from language["questions"]
        for task, letter in product(language["tasks"], language["letters"]):
            yield f"{task}\n\n{letter}"


def _asked(benchmark: Path) -> Iterator[str]:
    lines = (benchmark / "test" / "mmspec.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines:
        yield from json.loads(line)["turns"]


def _of_library() -> Iterator[str]:
    for name in MODULES.split():
        text = Path(import_module(name).__file__ or "").read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                source = ast.get_source_segment(text, node) or ""
                documentation = ast.get_docstring(node) or ""
                if len(source) in LENGTHS:
                    yield f"What does this function do?\n\n```python\n{source}\n```"
                if len(documentation) in LENGTHS:
                    yield f"Explain this documentation in simple words.\n\n{documentation}"


if __name__ == "__main__":
    for text in prompts(int(sys.argv[1]), *map(Path, sys.argv[2:3])):
        sys.stdout.write(json.dumps({"prompt": text}, ensure_ascii=False) + "\n")
