"""The files of a report: what Markdown and CSV make of any text, and the figure as a picture."""

import base64
import csv
import re
import sys
from dataclasses import replace
from html import unescape
from io import BytesIO

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from mmspec_bench.markdown import document, escaped
from mmspec_bench.report import write as report
from mmspec_bench.report.csv_files import csv_text
from mmspec_bench.report.figure import DPI, draw_figure
from mmspec_bench.report.merge import merge
from mmspec_bench.report.published import first_turn_values, read_paper
from mmspec_bench.report.samples_page import SAMPLES
from mmspec_bench.suite.offline import OFFLINE_TASKS, offline
from mmspec_bench.table import Section, Table
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
    assert link.endswith("the open diamonds are published in IbED.](figures/efficiency.png)")
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


def test_the_page_of_samples_shows_pictures_and_questions_and_needs_nothing_else(whole):
    folder, _ = whole
    text = (folder / SAMPLES).read_text()
    pictures = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', text)
    # Two samples of each: a chart twice, as each turn is about another; two and five pictures.
    assert len(pictures) == 2 * (2 + 2 + 5)
    assert len(set(pictures)) >= 2 * (1 + 2 + 5)
    for picture in pictures:
        with Image.open(BytesIO(base64.b64decode(picture))) as image:
            assert image.size == (64, 64)
            assert len(image.getcolors(64 * 64)) > 2
    questions = [unescape(each) for each in re.findall(r'class="question">([^<]+)<', text)]
    asked = [q.message for t in ("chart", "spot", "vist") for s in offline_two(t) for q in s.read()]
    assert questions == [words(message) for message in asked]
    assert "&lt;b&gt;two" in text
    assert "<b>two" not in text
    assert "http" not in text
    assert "<script" not in text


def offline_two(task):
    return offline(64, tasks={task: OFFLINE_TASKS[task]})[:2]


def words(message):
    return "".join(part for part in message.parts if isinstance(part, str)).strip()


def test_without_the_suite_there_is_no_page_of_samples(tmp_path):
    rows = [row("chartqa/0", "M"), plain("chartqa/0")]
    values = provenance(["M", "none"], suite=f"chartqa={tmp_path / 'gone'}")
    older = {name: values[name] for name in values if name != "image_size"}
    for number, settings in enumerate((values, older)):
        folder = write(tmp_path / str(number), rows, settings)
        written = report.write(merge([folder]), [], folder)
        assert written.warnings[0].startswith(f"no {SAMPLES}: ")
        assert SAMPLES not in {file.name for file in written.files}


def test_every_mark_of_the_figure_is_in_its_legend_and_nothing_is_outside(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: drawn.append(figure))
    long = [f"M@{'a/very/long/directory/of/a/draft' * 2}", "M", "none"]
    rows = [
        replace(row(f"{task}/0", method, [(3, 2, 3)] * 3), task=task)
        for task in ("chart", "vist", "prompts_of_somebody_with_a_very_long_name_indeed")
        for method in long
    ]
    write(tmp_path, rows, provenance(long))
    run = merge([tmp_path])
    published = first_turn_values(run, read_paper("paper:ibed"))
    draw_figure(run, published, "IbED", tmp_path / "figure.png")
    [figure] = drawn
    figure.set_dpi(DPI)
    FigureCanvasAgg(figure).draw()
    lines = [line for axes in figure.axes for line in axes.lines]
    marked = {line.get_label() for line in lines if line.get_marker() not in ("None", None)}
    [legend] = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == marked
    assert marked == {"this run", "published in IbED"}
    drawn_in, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn_in.x0, drawn_in.y0) >= 0
    assert drawn_in.x1 <= width
    assert drawn_in.y1 <= height


def test_without_matplotlib_all_else_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write(tmp_path, [row("chart/0", "M"), plain("chart/0")], provenance(["M", "none"]))
    bench_run = report.write(merge([tmp_path]), [], tmp_path)
    assert bench_run.warnings[0] == 'figures need matplotlib: run pip install "mmspec[bench]"'
    assert {file.name for file in bench_run.files} == {
        *("report.md", "methods.csv", "tasks.csv", "samples.html"),
    }
    text = (tmp_path / "report.md").read_text()
    assert "![" not in text
