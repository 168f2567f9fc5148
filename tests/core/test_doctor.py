"""`doctor`: what is missing comes with the command that gets it; failures are recorded."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from mmspec.chat import calibration
from mmspec.chat.calibration import finding_file
from mmspec.chat.options import Options
from mmspec.decoding.exact_rows import ExactRows
from mmspec.diagnostics import doctor
from mmspec.diagnostics.doctor import examine
from mmspec.diagnostics.provenance import commit, provenance, versions
from mmspec.errors import BackendError, HubError
from mmspec.exactness.finding import Finding
from mmspec.plugins import load_backend
from mmspec_bench import full_report
from mmspec_bench.weight_memory import weight_bytes
from support.stand_ins import quiet


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


def test_findings_of_another_version_have_no_line(cache, pair_engine, monkeypatch):
    finding_file(pair_engine.backend, pair_engine.target).write(Finding(1.0))
    assert len(examine()["exact"]) == 1
    monkeypatch.setattr(calibration, "version", lambda _: "0")
    assert examine()["exact"] == {}


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
    backend = SimpleNamespace(describe=lambda: {"hint": hint})
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


@pytest.fixture
def brief(monkeypatch, few_timings):
    """A report of one prompt."""
    monkeypatch.setattr(full_report, "PROMPTS", 1)
    monkeypatch.setattr(full_report, "OPTIONS", Options(gamma=5, max_new_tokens=6))
    monkeypatch.setattr(full_report, "REPEATS", 1)
    monkeypatch.setattr(full_report, "GAMMAS", (2,))


def test_the_full_report_measures_every_backend(brief, pair_paths):
    target, draft = map(str, pair_paths)
    report = full_report.full_report(target, draft, quiet)
    stages = report["stages"]
    assert set(stages) == {"check torch", "speed torch", "check mlx", "speed mlx", "parity"}
    assert all(full_report.passed(stage) for stage in stages.values()), stages
    assert stages["check mlx"]["result"]["outcome"] == "identical"
    assert json.loads(json.dumps(report))["examination"]["versions"]


def test_a_stage_that_fails_is_recorded_and_the_rest_goes_on(brief, pair_paths, monkeypatch):
    def out_of_memory(*_, **__):
        raise RuntimeError("out of\nmemory")

    monkeypatch.setattr(full_report, "speed", out_of_memory)
    stages = full_report.full_report(*map(str, pair_paths), quiet)["stages"]
    assert stages["speed torch"]["error"] == "RuntimeError: out of memory"
    assert not full_report.passed(stages["speed torch"])
    assert full_report.passed(stages["parity"])


def test_what_does_not_fit_is_skipped_with_the_numbers(brief, pair_paths, monkeypatch):
    needed = weight_bytes(pair_paths[0], "float32", packed=False)
    memory = int(needed / full_report.MEMORY_SHARE) - 1
    monkeypatch.setattr(full_report, "memory_bytes", lambda: memory)
    monkeypatch.setattr(full_report, "load", None)  # nothing is read that would not fit
    stages = full_report.full_report(*map(str, pair_paths), quiet)["stages"]
    assert all(full_report.passed(stage) for stage in stages.values())
    for told in stages.values():
        assert f"take {needed / 1e9:.1f} GB in float32 on" in told["skipped"]


def test_parity_is_skipped_alone_where_only_unpacked_weights_do_not_fit(
    brief, mlx_path, monkeypatch
):
    needed = weight_bytes(mlx_path, "float32", packed=False)
    memory = int(needed / full_report.MEMORY_SHARE) - 1
    monkeypatch.setattr(full_report, "memory_bytes", lambda: memory)
    monkeypatch.setattr(full_report, "installed_backends", lambda: ["mlx", "torch"])
    stages = full_report.full_report(str(mlx_path), str(mlx_path), quiet)["stages"]
    assert [name for name, told in stages.items() if "skipped" in told] == [
        *("check torch", "speed torch", "parity")
    ]
    assert all(full_report.passed(stage) for stage in stages.values()), stages


def test_enough_memory_skips_nothing(pair_paths, monkeypatch):
    needed = weight_bytes(pair_paths[0], "float32", packed=False)
    for memory in (int(needed / full_report.MEMORY_SHARE) + 2, None):
        monkeypatch.setattr(full_report, "memory_bytes", lambda memory=memory: memory)
        full_report.require_room("torch", pair_paths[0], "auto")


def test_without_network_it_says_what_to_do():
    with pytest.raises(HubError, match="HF_HUB_OFFLINE") as caught:
        full_report.full_report("llava-1.5-7b", "lvlm68m", quiet)
    assert "\n" not in str(caught.value)


def test_without_a_backend_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(full_report, "installed_backends", list)
    with pytest.raises(BackendError, match="pip install"):
        full_report.full_report("mini", "mini-draft", quiet)
