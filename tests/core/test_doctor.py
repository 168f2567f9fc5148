"""`doctor`: what is missing comes with the command that gets it; failures are recorded."""

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from mmspec.chat import calibration
from mmspec.chat.calibration import finding_file
from mmspec.chat.plugins import load_backend
from mmspec.decoding.exact_rows import ExactRows
from mmspec.diagnostics import doctor
from mmspec.diagnostics.doctor import examine
from mmspec.diagnostics.provenance import commit, provenance, versions
from mmspec.exactness.finding import Finding


def test_everything_installed_is_described():
    found = examine()
    assert set(found["backends"]) == {"torch", "mlx"}
    assert found["backends"]["torch"]["threads"] >= 1
    assert "blas" in found["backends"]["mlx"]
    assert found["versions"]["torch"]
    assert json.loads(json.dumps(found))["models"]


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty folder for what is measured on this machine."""
    monkeypatch.setenv("MMSPEC_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("quantize", ["none", "int4"])
def test_each_finding_about_exact_decoding_has_a_line(cache, pair_engine, quantize):
    model = SimpleNamespace(device="cpu", dtype="bfloat16", quantize=quantize)
    target = SimpleNamespace(name="tiny", directory=pair_engine.target.directory, model=model)
    file = finding_file(pair_engine.backend, target)
    finding = Finding(1.04, is_probed=True, rows=ExactRows(4, 64))
    file.write(finding)
    kind = {"none": "bfloat16", "int4": "bfloat16 int4"}[quantize]
    assert examine()["exact"] == {f"tiny, {kind}, torch on cpu": finding.line()}


@pytest.mark.parametrize("content", ["", "{}", '{"key": {"backend": {}}}', "[]"])
def test_a_damaged_finding_has_no_line(cache, content):
    (cache / "exactness").mkdir()
    (cache / "exactness" / "x.json").write_text(content)
    assert examine()["exact"] == {}


@pytest.mark.parametrize("other", [{"torch": "2.1.0"}, {"gpu": "H100"}, {}])
def test_findings_of_another_version_or_gpu_have_no_line(cache, pair_engine, monkeypatch, other):
    described_as(pair_engine, other, Finding(1.0))
    if not other:
        assert len(examine()["exact"]) == 1
        monkeypatch.setattr(calibration, "version", lambda _: "0")
    assert examine()["exact"] == {}


def test_findings_with_other_threads_and_of_other_folders_have_lines_of_their_own(
    cache, pair_engine, tmp_path
):
    here = pair_engine.backend.describe()["threads"]
    described_as(pair_engine, {}, Finding(1.0))
    described_as(pair_engine, {"threads": here + 1}, Finding(2.0))
    label = f"{pair_engine.target.name}, float32, torch on cpu"
    assert set(examine()["exact"]) == {label, f"{label}, {here + 1} threads"}
    copy = tmp_path / "copy"
    shutil.copytree(pair_engine.target.directory, copy)
    model = SimpleNamespace(device="cpu", dtype="float32", quantize="none")
    target = SimpleNamespace(name=pair_engine.target.name, directory=copy, model=model)
    finding_file(pair_engine.backend, target).write(Finding(3.0))
    assert len(examine()["exact"]) == 3


def described_as(engine, changes, finding):
    """Keep a finding of a backend that describes itself otherwise."""
    described = engine.backend.describe() | changes
    backend = SimpleNamespace(name="torch", describe=lambda: described)
    finding_file(backend, engine.target).write(finding)


@pytest.mark.parametrize(
    ("hint", "what", "fix"),
    [
        ("faster with OpenBLAS: apt install it", "mlx: faster with OpenBLAS", "apt install it"),
        ("often faster: unset NAME", "mlx: often faster", "unset NAME"),
    ],
)
def test_what_a_backend_would_be_faster_with_is_named_with_its_command(
    monkeypatch, hint, what, fix
):
    backend = SimpleNamespace(describe=lambda: {"hint": hint}, set_threads=lambda _: None)
    monkeypatch.setattr(doctor, "load_backend", lambda _: backend)
    fixes = {each["what"]: each for each in examine()["missing"]}
    assert fixes[what]["fix"] == fix
    assert not fixes[what]["needed"]


def test_models_that_are_not_here_come_with_their_command():
    missing = {each["what"]: each for each in examine()["missing"]}
    model = missing["model llava-1.5-7b"]
    assert model["fix"].startswith("mmspec models pull llava-1.5-7b")
    assert not model["needed"]


def test_a_missing_backend_is_named_with_pip(monkeypatch):
    monkeypatch.setattr(doctor, "installed_backends", lambda: ["torch"])
    found = examine()
    fixes = {each["what"]: each for each in found["missing"]}
    assert fixes["backend mlx"]["fix"] == 'pip install "mmspec[mlx]"'
    assert not fixes["backend mlx"]["needed"]
    assert "mlx" not in found["backends"]


def test_without_any_backend_nothing_works(monkeypatch):
    monkeypatch.setattr(doctor, "installed_backends", list)
    found = examine()
    assert found["exit_code"] == 1
    assert all(each["needed"] for each in found["missing"] if each["what"].startswith("backend "))


def test_a_broken_framework_is_a_finding(monkeypatch):
    def broken(name):
        raise ImportError("libcudart.so.12: cannot open\nshared object")

    monkeypatch.setattr(doctor, "load_backend", broken)
    found = examine()
    assert "libcudart" in found["backends"]["torch"]["error"]
    assert any("libcudart" in each["what"] for each in found["missing"])


def test_it_works_where_neither_framework_can_be_imported():
    blocked = "import sys; sys.modules['torch'] = sys.modules['mlx'] = None\n"
    code = blocked + "from mmspec.diagnostics.doctor import examine; print(examine()['backends'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip()) == (0, "{}"), run.stderr


def test_provenance_says_what_was_run_on_what():
    told = provenance([load_backend("torch")], ["mmspec", "bench"])
    assert told["command"] == ["mmspec", "bench"]
    assert told["backends"][0]["torch"] == told["versions"]["torch"]
    assert told["date"].endswith("+00:00")
    assert versions()["mmspec"]


def test_the_commit_is_that_of_the_source_tree():
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    found = commit()
    assert found is None or head.stdout.startswith(found.rstrip("+"))
