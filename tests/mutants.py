"""Break the code on purpose, one line at a time, and see that the named test turns red.

    python tests/mutants.py [NAME...]

Each mutant is a replacement of text in a temporary copy of the tree; the tree itself is never
touched. Exits with 1 if a mutant survives its test.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = ("mmspec", "backends", "cli", "models", "tests", "docs", "pyproject.toml")
UNNEEDED = shutil.ignore_patterns("__pycache__", "*.safetensors", "*.egg-info")


@dataclass(frozen=True)
class Mutant:
    """`old`, which stands once in `file`, becomes `new`; `test` must then fail."""

    name: str
    file: str
    old: str
    new: str
    test: str


MUTANTS = [
    Mutant(**entry)
    for entry in tomllib.loads((ROOT / "tests/mutants.toml").read_text(encoding="utf-8"))["mutant"]
]


def applied(mutant: Mutant, text: str) -> str:
    """The file's text with the mutant in it; ValueError where `old` does not stand once."""
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.file} holds its text {text.count(mutant.old)}x")
    return text.replace(mutant.old, mutant.new)


def is_caught(mutant: Mutant, copy: Path) -> bool:
    """Whether the named test fails on the copy with the mutant in it."""
    file = copy / mutant.file
    sound = file.read_text(encoding="utf-8")
    file.write_text(applied(mutant, sound), encoding="utf-8")
    try:
        return fails([mutant.test], copy)
    finally:
        file.write_text(sound, encoding="utf-8")


def fails(tests: list[str], copy: Path) -> bool:
    """Whether any of `tests` fails; RuntimeError where they cannot even be collected."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    paths = os.pathsep.join(str(copy / root) for root in ("", "backends", "cli", "models"))
    environment = os.environ | {"PYTHONPATH": paths}
    run = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    if run.returncode not in (0, 1):
        raise RuntimeError(f"{tests} did not run:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return run.returncode == 1


def copied(folder: Path) -> Path:
    """Copy what the tests need of the tree to `folder`."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=UNNEEDED)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def main(names: list[str]) -> int:
    """Try the mutants whose names contain any of `names`, all where none is given."""
    chosen = [each for each in MUTANTS if not names or any(name in each.name for name in names)]
    if not chosen:
        sys.exit(f"no mutant's name contains {' or '.join(names)}")
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        if fails(sorted({mutant.test for mutant in chosen}), copy):
            raise RuntimeError("a test fails without any mutant: nothing can be told from it")
        for mutant in chosen:
            caught = is_caught(mutant, copy)
            survivors += not caught
            print("caught  " if caught else "SURVIVED", mutant.name, flush=True)  # noqa: T201
    print(f"{len(chosen) - survivors} of {len(chosen)} caught")  # noqa: T201
    return min(survivors, 1)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="try those whose names contain one of these")
    sys.exit(main(parser.parse_args().names))
