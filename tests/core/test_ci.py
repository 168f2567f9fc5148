"""The scripts beside the tests do what they say on a machine without a GPU."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from support.known_options import parse

ROOT = Path(__file__).parent.parent.parent


def test_a_tree_is_found_by_its_entry_points_without_being_installed(tmp_path):
    script = ROOT / ".ci" / "metadata.py"
    subprocess.run([sys.executable, script, ROOT, tmp_path], check=True)
    installed = {point.name: point.value for point in entry_points(group="mmspec.backends")}
    code = (
        "from importlib.metadata import Distribution as D; import sys;"
        "[found] = D.discover(name='mmspec', path=[sys.argv[1]]);"
        "print({p.name: p.value for p in found.entry_points if p.group == 'mmspec.backends'})"
    )
    run = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.check_output(run, text=True).strip() == str(installed)


STAND_IN = """#!{python}
import os, sys
from pathlib import Path
if sys.argv[1:3] == ["-m", "mmspec_cli"]:
    print("mmspec", *sys.argv[3:])
    Path(sys.argv[sys.argv.index("--out") + 1]).write_text("a report")
else:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""
"""A Python that shows a command of mmspec's instead of running it."""


def gpu(*arguments, python=sys.executable, **variables):
    environment = os.environ | {"PYTHON": str(python)} | variables
    command = [str(ROOT / ".ci" / "gpu"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


CPU = {"DEVICE": "cpu", "DTYPE": "float32", "REPEATS": "1", "QUANTIZE": "none int8"}
REPORTS = {"tiny.md", "tiny-int8.md", "peers.txt"}


def test_the_program_takes_every_command_of_the_gpu_script(tmp_path):
    python, out = tmp_path / "python", tmp_path / "out"
    python.write_text(STAND_IN.format(python=sys.executable))
    python.chmod(0o700)
    done = gpu(out, "tiny", python=python, SYNTHETIC_DIR=str(tmp_path), **CPU)
    assert done.returncode == 0, done.stderr
    words = {file.name: file.read_text().split()[1:] for file in map(out.joinpath, REPORTS)}
    options = {name: parse(command) for name, command in words.items()}
    assert {values["device"] for values in options.values()} == {"cpu"}
    assert options["tiny.md"]["quantize"] == "none"
    assert options["tiny-int8.md"]["quantize"] == "int8"
    assert options["tiny.md"]["out"] == out / "tiny.json"


@pytest.mark.slow
def test_the_gpu_script_measures_in_one_call(tmp_path):
    done = gpu(tmp_path / "out", "tiny", SYNTHETIC_DIR=str(tmp_path), **CPU)
    assert done.returncode == 0, done.stderr
    written = {file.name: file.read_text() for file in (tmp_path / "out").iterdir()}
    assert set(written) == REPORTS | {"tiny.json", "tiny-int8.json", "peers.json"}
    assert "target step" in written["tiny.md"]
    assert "mmspec torch, plain" in written["peers.txt"]
    assert json.loads(written["tiny.json"])["costs"]
