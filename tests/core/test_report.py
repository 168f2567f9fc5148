"""Reports: their tables by hand, shards put together, and files."""

import csv

import pytest

from mmspec.ground.errors import CheckpointError, UsageError
from mmspec_bench.report import tables
from mmspec_bench.report.merge import merge
from mmspec_bench.report.write import REPORT, csv_text
from mmspec_bench.report.write import write as write_report
from support.suite_row import plain, row, seconds
from support.synthetic_run import provenance, rows_of, write

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
    row("chart/0", "M", [(3, 0, 1)], identical=True, turn=1, images=2, seconds=seconds(2.0, 3.0)),
    row("chart/0", "MT", [(3, 1, 1)], ["M", "T"], turn=1, images=2, seconds=seconds(2.0, 3.0)),
    plain("chart/0", 1, turn=1, images=2),
]


@pytest.fixture
def run(tmp_path):
    def bench_run(*rows, methods=("M", "MT", "none"), **settings):
        return merge([write(tmp_path, rows, provenance(methods, **settings))])

    return bench_run


def test_block_efficiency_of_methods(run):
    table = tables.drafting(run(FAST, SLOW, PLAIN, *LATER).summaries)
    # M: 7 tokens in 3 rounds, the answers' own 3 and 1; 4 of 7 drafted were kept.
    assert table.rows[0] == ("M", "2", "2.33", "2.00", "57.1 %", "2.33", "1.00", "100.0 %")
    assert [line[0] for line in table.rows] == ["M", "MT", "none"]


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
    assert table.rows == [
        (task, "M", count, *ends) for task, count in (("all", "4"), ("chart", "2"), ("spot", "2"))
    ]
    assert "of 2 to 4 samples" in table.note


def test_methods_beside_the_best_single_view(run):
    rows = [
        row(f"{task}/{n}", method, [(3, accepted, accepted + 1)] * 2, branches, images=images)
        for task, images, accepted_by in (
            ("chart", 1, {"M": 3, "T": 1, "MT": 3, "treew2:M": 3}),
            ("edit", 2, {"M": 3, "T": 1, "MT": 3, "treew2:M": 3}),
            ("vist", 5, {"M": 0, "T": 1, "MT": 0, "treew2:M": 1}),
            ("video", 4, {"M": 3, "T": 3, "MT": 3, "treew2:M": 3}),
        )
        for method, accepted in accepted_by.items()
        for branches in [list(method[-2:].strip(":"))]
        for n in range(3)
    ]
    methods = ["M", "T", "MT", "treew2:M", "none"]
    bench_run = run(*rows, *(plain(f"{task}/0", 8) for task in ("chart", "vist")), methods=methods)
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


def test_every_divergence_is_listed(run):
    result = {"position": 2, "margin": 3e-05, "outcome": "near-tie"}
    parted = row("chart/0", "MT", [(3, 2, 3)], identical=False, divergence=result)
    parted.pieces[2] = " red"
    bench_run = run(FAST, parted, PLAIN)
    (line,) = tables.divergences(bench_run).rows
    assert line == ("chart/0", "MT", "near-tie", "'x'", "' red'", "0", "2", "3.00e-05")


def test_what_was_left_out_and_what_answers_noted(run):
    skipped = [{"sample": "chart/7", "reason": "no image"}]
    noted = row("chart/1", "M", notes=["pooled"])
    bench_run = run(FAST, PLAIN, noted, skipped=skipped)
    assert tables.skipped_samples(bench_run).rows == [("chart/7", "no image")]
    assert tables.notes(bench_run).rows == [("M", "pooled", "1")]
    assert not tables.notes(run(FAST, PLAIN)).rows
    settings = dict(tables.settings(bench_run).rows)
    assert settings["models"].startswith("target name mini, digest 0123456789abcdef")
    assert settings["threads"] == "OMP_NUM_THREADS 2"


METHODS = ("M", "adaptive:MTC", "none")
TASKS = ("chart", "vist")


@pytest.fixture
def rows():
    return list(rows_of(3, METHODS, TASKS))


def halves(rows):
    """As --shard 1/2 and 2/2 take every second sample."""
    samples = list(dict.fromkeys(each.sample for each in rows))
    return [[each for each in rows if each.sample in samples[i::2]] for i in (0, 1)]


def test_two_shards_report_what_the_whole_run_reports(rows, tmp_path):
    whole = write(tmp_path / "whole", rows, provenance(METHODS))
    shards = [
        write(tmp_path / f"shard-{i}", half, provenance(METHODS, f"{i}/2"))
        for i, half in enumerate(halves(rows), start=1)
    ]
    one = write_report(merge([whole]), whole)
    two = write_report(merge(shards), shards[0])
    backwards = merge(list(reversed(shards)))
    assert [each.key for each in backwards.rows] == [each.key for each in merge([whole]).rows]
    names = [file.relative_to(whole) for file in one.files]
    assert names == [file.relative_to(shards[0]) for file in two.files]
    for name in names:
        first, second = ((folder / name).read_bytes() for folder in (whole, shards[0]))
        if name.name == REPORT:
            first, second = (text.partition(b"## Settings")[0] for text in (first, second))
        assert first == second, name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gamma": 4}, ["gamma", "5", "4"]),
        ({"methods": ["none"]}, ["methods"]),
        ({"dtype": "float16"}, ["dtype", "float32", "float16"]),
        ({"models": {"target": {"name": "mini", "digest": "0"}, "draft": None}}, ["models"]),
    ],
)
def test_other_settings_are_refused_by_name(change, words, rows, tmp_path):
    one, two = halves(rows)
    first = write(tmp_path / "a", one, provenance(METHODS, "1/2"))
    second = write(tmp_path / "b", two, provenance(METHODS, "2/2") | change)
    with pytest.raises(UsageError, match="not shards of one run") as raised:
        merge([first, second])
    assert all(word in str(raised.value) for word in [*words, str(first), str(second)])


def test_rows_that_are_there_twice_are_named(rows, tmp_path):
    first = write(tmp_path / "a", rows, provenance(METHODS, "1/2"))
    second = write(tmp_path / "b", rows[:3], provenance(METHODS, "2/2"))
    with pytest.raises(UsageError, match=r"chart/0 turn 0 by M is twice in .*a and .*b: give"):
        merge([first, second])


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"holds no run: there is no provenance\.json"):
        merge([tmp_path])
    write(tmp_path / "empty", [], provenance(METHODS))
    with pytest.raises(UsageError, match="has no rows: no sample"):
        merge([tmp_path / "empty"])
    other = write(tmp_path / "other", [row()], {"suite": "offline"})
    with pytest.raises(CheckpointError, match=r"provenance\.json: methods is missing"):
        merge([other])


def test_csv_reads_back_and_holds_no_formulas(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text(csv_text([{"a": '1,"2"\n', "b": "=1+1"}, {"a": -1.5, "c": 0.1 + 0.2}]))
    with file.open(newline="") as opened:
        first, second = csv.DictReader(opened)
    assert first == {"a": '1,"2"\n', "b": "'=1+1", "c": ""}
    assert (float(second["a"]), float(second["c"])) == (-1.5, 0.1 + 0.2)
