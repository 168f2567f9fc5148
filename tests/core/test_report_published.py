"""Published numbers: against some typed by hand from the papers, and beside a run's own."""

import pytest

from mmspec_bench.report.merge import merge
from mmspec_bench.report.published import PAPERS, compared_tables, read_paper
from mmspec_bench.suite.datasets import DATASETS
from mmspec_bench.suite.methods import read_method
from mmspec_bench.suite.metrics import summarise
from mmspec_bench.suite.offline import OFFLINE_TASKS
from support.mmspec_suite import TOPICS
from support.suite_row import plain, row, seconds
from support.synthetic_run import provenance, write


@pytest.mark.parametrize(
    ("paper", "table", "label", "column", "value"),
    [
        ("ibed", 0, "M", "PororoSV", 1.19),
        ("ibed", 0, "T", "ChartQA", 2.22),
        ("ibed", 0, "MT 4:1", "VIST", 1.45),
        ("tabed", 0, "TABED MT", "mean of these", 2.31),
        ("tabed", 2, "TABED MTCP", "5 images", 2.13),
        ("mmspec", 1, "MSD", "COCO", 2.42),
    ],
)
def test_values_are_the_papers(paper, table, label, column, value):
    result = read_paper(f"paper:{paper}").tables[table]
    place = [each.name for each in result.columns].index(column)
    (line,) = (each for each in result.rows if each.label == label)
    assert line.values[place] == value


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_speaks_of_what_there_is(name):
    paper = read_paper(f"paper:{name}")
    tasks = {task for each in paper.tasks.values() for task in each}
    assert tasks <= {*OFFLINE_TASKS, *DATASETS, *TOPICS}
    for table in paper.tables:
        assert {column.measure or table.measure for column in table.columns} <= set(
            summarise([], [])
        )
        assert all(len(line.values) == len(table.columns) for line in table.rows)
        for line in table.rows:
            assert [read_method(method).name for method in line.methods] == list(line.methods)


@pytest.fixture
def run(tmp_path):
    methods = ("M/run", "T", "lookup", "none")
    rows = [
        row("spot/0", "M/run", [(3, 3, 4)], seconds=seconds(2.0)),
        row("spot/0", "M/run", [(3, 0, 1)], turn=1),
        row("edit/0", "M/run", [(3, 0, 1), (3, 1, 2)]),
        row("spot/0", "T", [(3, 1, 2)]),
        row("spot/0", "lookup", [(3, 1, 2)], ()),
        plain("spot/0", 4, seconds=seconds(4.0)),
    ]
    return merge([write(tmp_path, rows, provenance(methods))])


def cells(run, name, table):
    """This run's and the published cell by row and column, over all parts of a paper's table."""
    paper = read_paper(f"paper:{name}")
    title = f"Beside {paper.title}: {paper.tables[table].title}: "
    return {
        (row[0], heading.rpartition(",")[0]): tuple(pair)
        for part in compared_tables(run, paper)
        if part.title.startswith(title)
        for row in part.rows
        for heading, *pair in zip(part.columns[1::2], row[1::2], row[2::2], strict=True)
    }


def test_ours_stand_beside_the_papers_in_its_own_terms(run):
    result = cells(run, "ibed", 0)
    # First turns only; the mean is of datasets, not of rounds.
    assert result["M (M/run)", "Spot-the-Diff"] == ("4.00", "2.34")
    assert result["M (M/run)", "2-image mean"] == ("2.75", "2.26")
    # No edit by T, so no mean; a method without a published row has its own.
    assert result["T", "Spot-the-Diff"][0] == "2.00"
    assert result["T", "2-image mean"][0] == ""
    assert result["lookup", "Spot-the-Diff"] == ("2.00", "")
    assert result["M (M/run)", "PororoSV"] == ("", "1.19")
