"""The files of a report: what Markdown and CSV make of any text, and the figure as a picture."""

import csv
import sys

import pytest
from PIL import Image

from mmspec_bench.report import write as report
from mmspec_bench.report.csv_files import csv_text
from mmspec_bench.report.markdown import document, escaped
from mmspec_bench.report.merge import merge
from mmspec_bench.report.published import read_paper
from mmspec_bench.report.table import Section, Table
from support.suite_row import plain, row
from support.synthetic_run import METHODS, provenance, rows_of, write


def test_markdown_shows_text_as_it_is():
    assert escaped("a|b\n<i> & *c* [d]_e") == "a\\|b &lt;i&gt; &amp; \\*c\\* \\[d\\]\\_e"
    table = Table("T|t", ("x", "y"), [("a|b", "1\n2")], "A <note>.")
    text = document("Title", [Section("S", ["r*"], [table], True)], {})
    assert text.splitlines()[-3:] == ["| x | y |", "| --- | --: |", "| a\\|b | 1 2 |"]
    assert "![" not in text


def test_csv_reads_back_and_holds_no_formulas(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text(csv_text([{"a": '1,"2"\n', "b": "=1+1"}, {"a": -1.5, "c": 0.1 + 0.2}]))
    with file.open(newline="") as opened:
        first, second = csv.DictReader(opened)
    assert first == {"a": '1,"2"\n', "b": "'=1+1", "c": ""}
    assert (float(second["a"]), float(second["c"])) == (-1.5, 0.1 + 0.2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    names = [*METHODS, "ngram", "none", "draft"]
    rows = list(rows_of(2, names, ("chart", "spot", "vist")))
    write(folder, rows, provenance(names))
    return folder, report.write(merge([folder]), [read_paper("paper:ibed")], folder)


def test_the_figure_is_a_picture_with_something_on_it(whole):
    _, written_report = whole
    [file] = (file for file in written_report.files if file.suffix == ".png")
    with Image.open(file) as picture:
        width, height = picture.size
        colours = picture.convert("RGB").getcolors(maxcolors=2**24)
    assert width == 1440
    assert 300 < height < 2000
    # A blank page has one colour; axes alone have fewer than the lines between.
    assert len(colours) > 60


def test_markdown_links_the_figure_and_stands_alone(whole):
    folder, _ = whole
    text = (folder / report.REPORT).read_text()
    [link] = (line for line in text.splitlines() if line.startswith("!["))
    assert link.endswith("the open diamonds are IbED's.](figures/efficiency.png)")
    assert "http" not in text
    assert "## Beside IbED" in text


def test_csv_has_a_line_for_every_method_task_and_turn(whole):
    folder, _ = whole
    with (folder / "tasks.csv").open(newline="") as opened:
        lines = list(csv.DictReader(opened))
    assert len(lines) == (2 + 2 + 1) * (len(METHODS) + 3)
    (one,) = (
        line
        for line in lines
        if (line["task"], line["turn"], line["method"]) == ("vist", "0", "M/run")
    )
    assert 1.0 <= float(one["block_efficiency"]) < 1.6
    assert float(one["seconds_vision"]) == pytest.approx(0.06, rel=0.05)


def test_without_matplotlib_all_else_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write(tmp_path, [row("chart/0", "M"), plain("chart/0")], provenance(["M", "none"]))
    bench_run = report.write(merge([tmp_path]), [], tmp_path)
    assert bench_run.warning == 'figures need matplotlib: run pip install "mmspec[bench]"'
    assert {file.name for file in bench_run.files} == {
        *("report.md", "methods.csv", "tasks.csv"),
    }
    text = (tmp_path / "report.md").read_text()
    assert "![" not in text
