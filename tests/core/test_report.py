"""Reports: their tables by hand, and CSV files."""

import csv
import json
from dataclasses import asdict

import pytest

from mmspec.ground.errors import CheckpointError, UsageError
from mmspec_bench.report import tables
from mmspec_bench.report.bench_run import read_run
from mmspec_bench.suite.rows import PROVENANCE, ROWS, lines
from mmspec_bench.suite.run_folder import SuiteSettings
from mmspec_bench.table import csv_text
from support.suite_row import plain, row, seconds


def provenance(methods, **others):
    names = {"target": "mini", "draft": "other"}
    models = {role: {"name": name, "digest": "01"} for role, name in names.items()}
    place = {"backend": "torch", "device": "cpu", "dtype": "float32"}
    settings = asdict(SuiteSettings("offline", tuple(methods)))
    return {**settings, "models": models, **place, "skipped": [], "resumed": [], **others}


def write(folder, rows, values):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ROWS).write_text(lines(rows), encoding="utf-8")
    (folder / PROVENANCE).write_text(json.dumps(values), encoding="utf-8")
    return folder


# Six tokens each.  M: 3 kept and one's own, then 1 and its own, in two rounds.
FAST = row("chart/0", "M", [(3, 3, 4), (1, 1, 2)], identical=True, seconds=seconds(4.0, 5.0))
SLOW = row(
    "chart/0",
    "MT",
    [(3, 0, 1), (3, 2, 3), (1, 1, 2)],
    ["M", "T"],
    identical=True,
    seconds=seconds(5.0, 8.0, draft=1.5, verify=3.3),
)
PLAIN = plain("chart/0", 6, seconds=seconds(6.0, 7.0))
LATER = [
    row("chart/0", "M", [(3, 0, 1)], identical=False, turn=1, images=2, seconds=seconds(2.0, 3.0)),
    row("chart/0", "MT", [(3, 1, 1)], ["M", "T"], turn=1, images=2, seconds=seconds(2.0, 3.0)),
    plain("chart/0", 1, turn=1, images=2),
]


@pytest.fixture
def run(tmp_path):
    def bench_run(*rows, methods=("M", "MT", "none"), **settings):
        return read_run(write(tmp_path, rows, provenance(methods, **settings)))

    return bench_run


def test_drafting_is_measured_over_rounds_answers_and_questions_that_plain_decoding_answered(run):
    alone = row("chart/1", "M", [(3, 0, 1)])
    table = tables.drafting(run(FAST, SLOW, PLAIN, *LATER, alone).summaries)
    # M: 8 tokens in 4 rounds, the answers' own 3, 1 and 1; 4 of 10 drafted were kept.
    assert table.rows[0] == ("M", "3", "2.00", "1.67", "40.0 %", "2.00", "1.00", "50.0 %")
    assert table.rows[1][-1] == "100.0 %"  # of what was compared
    assert (table.rows[2][0], table.rows[2][-1]) == ("none", "")


def test_every_task_has_its_intervals_nodes_and_speeds(run):
    rows = [
        row(f"{task}/{n}", "M", [(3, n, n + 1)], identical=bool(n), seconds=seconds(1.0, 2.0))
        for task in ("chart", "spot")
        for n in range(2)
    ]
    bench_run = run(*rows, *(plain(one.sample, 4, seconds=seconds(4.0, 5.0)) for one in rows))
    table = tables.by_task(bench_run.task_summaries)
    # Of two samples with 1 and 2 tokens in a round, a quarter of the resamples has one alone.
    ends = ("1.50", "1.00", "2.00", "3.00", "1.50", "50.0 %")
    counts = {"all": "4", "chart": "2", "spot": "2"}
    assert table.rows == [(task, "M", count, *ends) for task, count in counts.items()]
    assert "of 2 to 4 samples" in table.note


def test_the_only_task_may_be_called_all(run):
    bench_run = run(row("all/0", "M", [(3, 0, 0)]), methods=["M"])
    lines = bench_run.task_summaries
    assert [(line["task"], line["answers"]) for line in lines] == [("all", 1)]
    assert tables.by_task(lines).rows[0][:4] == ("all", "M", "1", "0.00")


def test_methods_beside_the_best_single_view(run):
    accepted = {"M": (3, 3, 0, 3), "T": (1, 1, 1, 3), "MT": (3, 3, 0, 3), "treew2:M": (3, 3, 1, 3)}
    rows = [
        row(f"t/{sample}", method, [(3, count, count + 1)] * 2)
        for method, counts in accepted.items()
        for sample, count in enumerate(3 * counts)
    ]
    bench_run = run(*rows, plain("t/0", 8), methods=[*accepted, "none"])
    whole = tables.against_best_view(bench_run)
    assert whole.columns[2] == "than M"  # a tree keeps more, but is no chain
    assert "3.25 of M" in whole.note
    assert "12 samples" in whole.note
    assert [line[:3] for line in whole.rows] == [
        ("T", "2.50", "-23.1 %"),
        ("MT", "3.25", "+0.0 %"),
        ("treew2:M", "3.50", "+7.7 %"),
    ]
    assert whole.rows[1][3:] == ("+0.0 %", "+0.0 %")


@pytest.mark.parametrize(("margin", "cell"), [(3e-05, "3.00e-05"), (None, "")])
def test_every_divergence_is_listed(run, margin, cell):
    result = {"position": 2, "margin": margin, "outcome": "near-tie"}
    parted = row("chart/0", "MT", [(3, 2, 3)], identical=False, divergence=result)
    parted.pieces[2] = " red"
    bench_run = run(FAST, parted, PLAIN)
    (line,) = tables.divergences(bench_run).rows
    assert line == ("chart/0", "MT", "near-tie", "'x'", "' red'", "0", "2", cell)


def test_the_number_of_samples_that_were_left_out_is_said(run):
    skipped = [{"sample": name, "reason": "no image"} for name in ("chart/7", FAST.sample)]
    # The second was answered after a repair.
    assert "1 sample left out" in tables.title(run(FAST, PLAIN, skipped=skipped))
    assert "left out" not in tables.title(run(FAST, PLAIN, skipped=None, resumed=None))


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        ([FAST, SLOW, PLAIN, *LATER], ""),
        ([FAST, PLAIN, *LATER], "of 2 questions answers are missing (MT 1)"),
        ([FAST, LATER[1]], "(M 1, MT 1, none 2)"),
    ],
)
def test_methods_that_answered_other_questions_are_named(run, rows, missing):
    problem = run(*rows).problem
    assert missing in problem
    assert bool(problem) == bool(missing)


def test_a_row_of_an_unknown_method_is_named(run):
    with pytest.raises(UsageError, match=r"rows\.jsonl has a row of MT, which the run has not"):
        run(FAST, SLOW, methods=("M", "none"))


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"holds no run: there is no provenance\.json"):
        read_run(tmp_path)
    write(tmp_path / "empty", [], provenance(["M"]))
    with pytest.raises(UsageError, match="has no rows: no sample"):
        read_run(tmp_path / "empty")
    other = write(tmp_path / "other", [row()], {"suite": "offline"})
    with pytest.raises(CheckpointError, match=r"provenance\.json: methods is missing"):
        read_run(other)


def test_csv_reads_back_and_holds_no_formulas(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text(csv_text([{"a": '1,"2"\n', "b": "=1+1"}, {"a": -1.5, "c": 0.1 + 0.2}]))
    with file.open(newline="") as opened:
        first, second = csv.DictReader(opened)
    assert first == {"a": '1,"2"\n', "b": "'=1+1", "c": ""}
    assert (float(second["a"]), float(second["c"])) == (-1.5, 0.1 + 0.2)


def test_shards_are_one_run(tmp_path):
    rows = [plain(f"chart/{place}", 4) for place in range(4)]
    settings = provenance(["none"])
    second = {"skipped": [{"sample": "chart/7", "reason": "no image"}], "problem": "busy"}
    folders = [
        write(tmp_path / str(at), rows[at - 1 :: 2], settings | more | {"shard": f"{at}/2"})
        for at, more in ((1, {}), (2, second))
    ]
    both = read_run(*folders)
    assert {each.sample for each in both.rows} == {each.sample for each in rows}
    assert "1 sample left out" in tables.title(both)
    assert both.problem == "busy"
    with pytest.raises(UsageError, match="give each shard once"):
        read_run(folders[0], folders[0])
    for name, value in (("gamma", 9), ("quantize", "int8"), ("is_exact", True)):
        other = write(tmp_path / name, rows[:1], settings | {name: value})
        with pytest.raises(UsageError, match=f"{name} differs"):
            read_run(folders[1], other)
