"""MMSpec itself as a suite: ten samples of each topic by small models, in two shards."""

from pathlib import Path

import pytest
from benchmark_files import benchmark

from mmspec_bench.report.bench_run import read_run
from mmspec_bench.suite.rows import PLAIN
from mmspec_cli.main import main as mmspec
from support.factory_qwen import tiny_qwen
from support.mmspec_suite import TOPICS

pytestmark = pytest.mark.slow
METHODS = {"mini": "M,T,tree8:lookup", "a tiny Qwen": "T,M,lookup"}


def models(name: str, folder: Path) -> list[str]:
    """The options that name a target and its draft."""
    if name == "mini":
        return ["--model", "mini"]
    target, draft = (
        str(tiny_qwen("qwen3_vl", folder / f"qwen{seed}", seed=seed, positions=8192))
        for seed in (0, 1)
    )
    return ["--model", target, "--draft", draft, "--max-image-tokens", "40"]


@pytest.mark.parametrize("name", METHODS)
def test_ten_samples_of_each_topic_are_answered_as_without_drafts(name, tmp_path, capsys):
    suite = ["--suite", f"mmspec={benchmark()}", "--limit", "10", "--max-new-tokens", "12"]
    chosen = [*models(name, tmp_path), "--methods", f"{METHODS[name]},{PLAIN}"]
    folders = [tmp_path / "1", tmp_path / "2"]
    for folder in folders:
        shards = ["--shard", f"{folder.name}/2", "--out", str(folder)]
        assert mmspec(["bench", "run", *suite, *chosen, *shards]) == 0
    run = read_run(*folders)
    assert len({row.sample for row in run.rows}) == 60
    assert tuple(run.tasks) == TOPICS
    assert max(row.turn for row in run.rows) == 2
    drafted = [row for row in run.rows if row.method != PLAIN]
    assert all(row.identical for row in drafted if "not compared" not in "".join(row.notes))
    assert any(round_.accepted for row in drafted for round_ in row.rounds)
    capsys.readouterr()
    assert mmspec(["bench", "report", *map(str, folders)]) == 0
    report = capsys.readouterr().out
    assert all(topic in report for topic in TOPICS)
