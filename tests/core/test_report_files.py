"""The files of a report: what Markdown, HTML and CSV make of any text, and figures as pictures."""

import csv
import sys
from html.parser import HTMLParser

import pytest
from PIL import Image

from mmspec_bench.report import write as report
from mmspec_bench.report.csv_files import csv_text
from mmspec_bench.report.markdown import document, escaped
from mmspec_bench.report.merge import merge
from mmspec_bench.report.plots.style import line_styles
from mmspec_bench.report.published import read_paper
from mmspec_bench.report.samples_page import samples_page
from mmspec_bench.report.table import Section, Table
from support.suite_row import plain, row
from support.synthetic_run import METHODS, provenance, rows_of, write

HOSTILE = "<script>alert('x')</script> & | *b* [a](http://x) `c` \\ $x$"


class Reader(HTMLParser):
    """Collects tags and text, as a browser would see them."""

    def __init__(self):
        super().__init__()
        self.tags, self.marked, self.text = [], [], ""

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "mark":
            self.marked.append("")

    def handle_data(self, data):
        self.text += data
        if self.tags and self.tags[-1][0] == "mark" and self.get_starttag_text():
            self.marked[-1] += data

    def handle_endtag(self, tag):
        self.tags.append((f"/{tag}", {}))


@pytest.fixture
def run(tmp_path):
    def bench_run(*rows, methods=("M", "none")):
        return merge([write(tmp_path, rows, provenance(methods))])

    return bench_run


def test_accepted_tokens_are_marked_round_by_round(run):
    answer_row = row("chart/0", "M", [(3, 2, 3), (3, 0, 1), (3, 1, 2)], pieces=list("abcdef"))
    reader = Reader()
    reader.feed(samples_page(run(answer_row, plain("chart/0", 6)), 1).partition("</p>")[2])
    assert reader.marked == ["ab", "e"]
    assert "abcdef" in reader.text
    titles = [about["title"] for tag, about in reader.tags if tag == "mark"]
    assert titles[0] == "round 1: 2 of 3 drafted tokens accepted"


def test_text_of_a_model_is_never_markup(run):
    answer_row = row(
        f"{HOSTILE}/0", "M", [(1, 1, 2)], pieces=[HOSTILE, "<img src=x>"], task=HOSTILE
    )
    text = samples_page(run(answer_row), 1)
    reader = Reader()
    reader.feed(text)
    assert HOSTILE in reader.text
    tags = {tag for tag, _ in reader.tags}
    assert not tags & {"script", "img", "a", "link", "b"}
    assert "http" not in text.replace(HOSTILE.replace("&", "&amp;"), "").replace("(http://x)", "")


def test_as_many_samples_of_a_task_are_coloured_as_asked_for(run):
    rows = [row(f"{task}/{n}", "M") for task in ("chart", "spot") for n in range(3)]
    bench_run = run(*rows)
    assert [samples_page(bench_run, count).count("<h2>") for count in (0, 1, 2)] == [0, 2, 4]


def test_markdown_shows_text_as_it_is():
    assert escaped("a|b\n<i> & *c* [d]_e") == "a\\|b &lt;i&gt; &amp; \\*c\\* \\[d\\]\\_e"
    table = Table("T|t", ("x", "y"), [("a|b", "1\n2")], "A <note>.")
    text = document("Title", [Section("S", ["r*"], ["absent"], [table])], {})
    assert text.splitlines()[-3:] == ["| x | y |", "| --- | --: |", "| a\\|b | 1 2 |"]
    assert "absent" not in text


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


def test_figures_are_pictures_with_something_on_them(whole):
    _, written_report = whole
    pictures = [file for file in written_report.files if file.suffix == ".png"]
    assert {file.stem for file in pictures} == {
        *("efficiency", "accepted"),
        *("weights-adaptive-MTC", "weights-adaptive-MTCP"),
    }
    for file in pictures:
        with Image.open(file) as picture:
            width, height = picture.size
            colours = picture.convert("RGB").getcolors(maxcolors=2**24)
        assert width == 1440
        assert 300 < height < 2000
        # A blank page has one colour; axes alone have fewer than the lines between.
        assert len(colours) > 60, file


def test_markdown_links_every_figure_and_stands_alone(whole):
    folder, written_report = whole
    text = (folder / report.REPORT).read_text()
    links = [line for line in text.splitlines() if line.startswith("![")]
    targets = [line.rpartition("(")[2].rstrip(")") for line in links]
    assert sorted(targets) == sorted(
        str(file.relative_to(folder)) for file in written_report.files if file.suffix == ".png"
    )
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
        *("report.md", "samples.html", "methods.csv", "tasks.csv"),
    }
    text = (tmp_path / "report.md").read_text()
    assert "![" not in text


def test_every_method_has_a_look_of_its_own():
    names = [*METHODS, "ngram", "none", "MC", "P36"]
    assert len({tuple(style.items()) for style in line_styles(names).values()}) == len(names)
