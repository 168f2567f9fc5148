"""The scripts beside the tests do what they say on a machine without a GPU."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

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


def gpu(*arguments, **variables):
    environment = os.environ | {"PYTHON": sys.executable} | variables
    command = [str(ROOT / ".ci" / "gpu"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_the_gpu_script_measures_in_one_call(tmp_path):
    cpu = {"DEVICE": "cpu", "DTYPE": "float32", "REPEATS": "1", "QUANTIZE": "none int8", "PAIR": ""}
    done = gpu(tmp_path / "out", "tiny", SYNTHETIC_DIR=str(tmp_path), **cpu)
    assert done.returncode == 0, done.stderr
    told = {file.name for file in (tmp_path / "out").iterdir()}
    assert told == {
        f"{name}.{kind}" for name in ("tiny", "tiny-int8") for kind in ("json", "md", "png")
    }
    assert "plain step" in (tmp_path / "out" / "tiny.md").read_text()


def test_the_gpu_script_says_that_there_is_no_gpu(tmp_path):
    done = gpu(tmp_path, "tiny", CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stderr) == (2, "no CUDA GPU is here\n")
