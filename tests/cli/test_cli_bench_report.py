"""`mmspec bench report`: a run of the tiny pair, in a terminal and as files."""

import shutil

import pytest

from mmspec_cli.main import main


@pytest.fixture(scope="module")
def short_run(pair_paths, tmp_path_factory):
    """The folder of a short run, which no test writes to."""
    target, draft = map(str, pair_paths)
    models = ["--model", target, "--draft", draft, "--backend", "torch"]
    asked = ["--tasks", "chart,spot", "--limit", "1", "--methods", "M,MT,none", "--gamma", "2"]
    out = tmp_path_factory.mktemp("report") / "out"
    assert not main(["bench", "run", *asked, "--max-new-tokens", "6", "--out", str(out), *models])
    return out


@pytest.fixture
def ran(short_run, tmp_path):
    """A copy of the short run."""
    return shutil.copytree(short_run, tmp_path / "out")


def test_a_report_is_shown_and_written(run, ran):
    result = run("bench", "report", str(ran), "--compare", "paper:ibed", "--plain")
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert "Drafting" in lines
    assert any(line.startswith("MT ") for line in lines)
    assert any("2-image mean, IbED" in line for line in lines)
    assert {file.name for file in ran.iterdir()} == {
        *("rows.jsonl", "provenance.json", "report.md", "methods.csv", "tasks.csv")
    }
    assert any(line.startswith("Tokens per round, the target's own") for line in lines)
    assert str(ran / "tasks.csv") in lines
