"""The files of a report: what Markdown and CSV make of any text, and their lines."""

import csv

import pytest

from mmspec_bench.report.merge import merge
from mmspec_bench.report.published import read_paper
from mmspec_bench.report.write import REPORT, csv_text
from mmspec_bench.report.write import write as write_report
from support.synthetic_run import METHODS, provenance, rows_of, write


def test_csv_reads_back_and_holds_no_formulas(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text(csv_text([{"a": '1,"2"\n', "b": "=1+1"}, {"a": -1.5, "c": 0.1 + 0.2}]))
    with file.open(newline="") as opened:
        first, second = csv.DictReader(opened)
    assert first == {"a": '1,"2"\n', "b": "'=1+1", "c": ""}
    assert (float(second["a"]), float(second["c"])) == (-1.5, 0.1 + 0.2)


def test_a_report_stands_alone_and_has_a_line_for_every_method_task_and_turn(tmp_path):
    names = [*METHODS, "lookup", "none"]
    write(tmp_path, rows_of(2, names, ("chart", "spot", "vist")), provenance(names))
    written = write_report(merge([tmp_path]), [read_paper("paper:ibed")], tmp_path)
    assert [file.name for file in written.files] == [REPORT, "methods.csv", "tasks.csv"]
    text = (tmp_path / REPORT).read_text()
    assert "http" not in text
    assert "## Beside IbED: Block efficiency" in text
    with (tmp_path / "tasks.csv").open(newline="") as opened:
        lines = list(csv.DictReader(opened))
    assert len(lines) == (2 + 2 + 1) * len(names)
    (one,) = (
        line
        for line in lines
        if (line["task"], line["turn"], line["method"]) == ("vist", "0", "M/run")
    )
    with (tmp_path / "methods.csv").open(newline="") as opened:
        lines = list(csv.DictReader(opened))
    assert [line["method"] for line in lines if line["task"] == "all"] == names
    assert len(lines) == (1 + 3) * len(names)
    assert 1 <= float(one["block_efficiency"]) <= 6
    assert float(one["seconds_vision"]) == pytest.approx(0.06, rel=0.05)
