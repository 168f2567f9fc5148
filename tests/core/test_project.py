"""The package, its releases, and the scripts beside the tests."""

import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path
from string import Template

import mmspec
from support.known_options import parse

ROOT = Path(__file__).parents[2]


LEAVES_AT_ONCE = """
import sys, mmspec
engine = mmspec.load(sys.argv[1], sys.argv[2], backend="torch")
chat = engine.chat(mmspec.Options(max_new_tokens=40))
stream = chat.ask("What is this?", sys.argv[3])
next(stream.texts())
"""


def test_an_interpreter_that_leaves_during_an_answer_prints_nothing(pair_paths):
    command = [sys.executable, "-c", LEAVES_AT_ONCE, *pair_paths, ROOT / "tests/drawings/disc.png"]
    done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("", "")


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


def test_the_program_takes_every_command_of_the_gpu_script(tmp_path):
    file = ROOT / ".ci" / "gpu"
    subprocess.run(["sh", "-n", file], check=True)
    script = file.read_text(encoding="utf-8").replace("\\\n", "")
    script = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", script)  # the defaults of variables
    values = {"device": "cpu", "kind": "int8", "pair": "mini", "file": tmp_path, "out": tmp_path}
    commands = re.findall(r"-m mmspec_cli (.*?) *>", script)
    words = (shlex.split(Template(text).safe_substitute(values)) for text in commands)
    speed, peers = map(parse, words)
    assert (speed["device"], speed["dtype"], speed["quantize"]) == ("cpu", "bfloat16", "int8")
    assert (peers["device"], peers["report_file"]) == ("cpu", tmp_path / "peers.json")


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RELEASE = runpy.run_path(str(ROOT / ".ci" / "release.py"))
CHANGES = (
    "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-12-01\n\n- New.\n\n## [1.1.0]\n\n- Old.\n"
)


def built(folder, page="[a](https://example.org)", size=9):
    """A wheel with a page and an sdist of a size."""
    wheel, sdist = folder / "mmspec-1.2.0-py3-none-any.whl", folder / "mmspec-1.2.0.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("mmspec-1.2.0.dist-info/METADATA", f"Name: mmspec\n\n{page}\n")
    sdist.write_bytes(b"")
    os.truncate(sdist, size)
    return [wheel, sdist]


def test_what_is_wrong_with_a_release_is_named(tmp_path):
    def problems(files, tag="v1.2.0", changes=CHANGES):
        return list(RELEASE["problems"](tag, "1.2.0", changes, files))

    sections = [RELEASE["section"](CHANGES, each) for each in ("1.2.0", "1.1.0")]
    assert sections == ["- New.", "- Old."]
    both = built(tmp_path)
    assert problems(both) == []
    assert "tag v1.2.0" in problems(both, tag="v1.2")[0]
    for changes in (CHANGES.replace("- New.", ""), CHANGES.replace("[1.2.0]", "[1.2.0a]")):
        assert "no text under ## [1.2.0]" in problems(both, changes=changes)[0]
    assert "there is mmspec-1.2.0.tar.gz: build" in problems(both[1:])[0]
    large = built(tmp_path, size=RELEASE["MOST_BYTES"] + 1)
    assert "45,000,001 bytes, over 45,000,000" in problems(large)[0]
    linked = built(tmp_path, "[a](docs/guide.md) [b](https://example.org) ![c](docs/x.png)")
    assert [line.split()[-1] for line in problems(linked)] == ["docs/guide.md", "docs/x.png"]


def test_the_version_is_the_package_s():
    assert mmspec.__version__ == PROJECT["version"]
    assert "__version__" in dir(mmspec)
