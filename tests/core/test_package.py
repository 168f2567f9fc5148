"""What `import mmspec` gives: its version and names, and an interpreter that ends in silence."""

import subprocess
import sys
import tomllib
from pathlib import Path

import mmspec

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_package_s():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert mmspec.__version__ == project["version"]
    assert "__version__" in dir(mmspec)


LEAVES_AT_ONCE = """
import sys, mmspec
engine = mmspec.load(sys.argv[1], sys.argv[2], backend="torch")
chat = engine.chat(mmspec.Options(max_new_tokens=40))
stream = chat.ask("What is this?", sys.argv[3])
next(stream.texts())
"""


def test_an_interpreter_that_leaves_during_an_answer_prints_nothing(pair_paths, tmp_path):
    image = ROOT / "tests" / "drawings" / "disc.png"
    arguments = [*map(str, pair_paths), str(image)]
    done = subprocess.run(
        [sys.executable, "-c", LEAVES_AT_ONCE, *arguments],
        capture_output=True,
        check=True,
        text=True,
        cwd=ROOT,
    )
    assert (done.stdout, done.stderr) == ("", "")
