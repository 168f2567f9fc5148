"""`doctor`: what is missing comes with the command that gets it; failures are recorded."""

from types import SimpleNamespace

import pytest

from mmspec.chat import calibration
from mmspec.chat.calibration import finding_file
from mmspec.decoding.exact_rows import ExactRows
from mmspec.diagnostics import doctor
from mmspec.diagnostics.doctor import examine
from mmspec.exactness.finding import Finding


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


@pytest.mark.parametrize("other", [{"torch": "2.1.0"}, {"gpu": "H100"}, {}])
def test_findings_of_another_version_or_gpu_have_no_line(cache, pair_engine, monkeypatch, other):
    described_as(pair_engine, other, Finding(1.0))
    if not other:
        assert len(examine()["exact"]) == 1
        monkeypatch.setattr(calibration, "version", lambda _: "0")
    assert examine()["exact"] == {}


def described_as(engine, changes, finding):
    """Keep a finding of a backend that describes itself otherwise."""
    described = engine.backend.describe() | changes
    backend = SimpleNamespace(name="torch", describe=lambda: described)
    finding_file(backend, engine.target).write(finding)


def test_every_package_that_is_not_installed_comes_with_what_gets_it(monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    fixes = {each["what"].split(":")[0]: each["fix"] for each in examine()["missing"]}
    assert fixes["pyarrow"] == 'pip install "mmspec[bench]"'
    assert fixes["mlx_lm"] == 'pip install "mlx-lm"'


def test_a_broken_framework_is_a_finding(monkeypatch):
    def broken(name):
        raise ImportError("libcudart.so.12: cannot open\nshared object")

    monkeypatch.setattr(doctor, "load_backend", broken)
    found = examine()
    assert "libcudart" in found["backends"]["torch"]["error"]
    assert any("libcudart" in each["what"] for each in found["missing"])
