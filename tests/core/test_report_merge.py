"""Folders of a run put together: shards, what cannot be one run, and the files of a report."""

import csv

import pytest

from mmspec.ground.errors import UsageError
from mmspec_bench.report.merge import merge
from mmspec_bench.report.published import read_paper
from mmspec_bench.report.write import REPORT, csv_text
from mmspec_bench.report.write import write as write_report
from support.suite_row import row
from support.synthetic_run import provenance, rows_of, write

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
    papers = [read_paper("paper:ibed")]
    one = write_report(merge([whole]), papers, whole)
    two = write_report(merge(shards), papers, shards[0])
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
    with pytest.raises(UsageError, match="'methods' is missing"):
        merge([other])


def test_csv_reads_back_and_holds_no_formulas(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text(csv_text([{"a": '1,"2"\n', "b": "=1+1"}, {"a": -1.5, "c": 0.1 + 0.2}]))
    with file.open(newline="") as opened:
        first, second = csv.DictReader(opened)
    assert first == {"a": '1,"2"\n', "b": "'=1+1", "c": ""}
    assert (float(second["a"]), float(second["c"])) == (-1.5, 0.1 + 0.2)
