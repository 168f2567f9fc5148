"""The table of two views and their mixture: where a draft stands on the rule of mixtures."""

from itertools import combinations

from mmspec.drafters.views import LETTERS
from mmspec_bench.report.merge import BenchRun
from mmspec_bench.suite.methods import is_single_view
from mmspec_bench.suite.view_pairs import BREAK_EVEN, compare
from mmspec_bench.table import Table, percent, signed_percent


def view_pairs(run: BenchRun) -> Table:
    """Each pair of views of one draft: what each has right alone, and what a mixture would gain."""
    lines = [
        _line(run, first, second)
        for first, second in combinations(filter(is_single_view, run.drafting), 2)
        if first[1:] == second[1:]  # of one draft, by one overflow rule
    ]
    note = (
        "Shares of the places in the answers at which both views' tokens are known. Weaker's "
        "share: of the places that one view alone has right, those of the view with fewer. "
        "Recovered: of the same places, those that the even mixture has right. Expected: its gain "
        "over the better view, as measured on other drafts; above 0 if the weaker's share is over "
        f"{percent(BREAK_EVEN, 0)}."
    )
    columns = (
        *("views", "places", "both right", "first alone", "second alone", "weaker's share"),
        *("recovered", "expected"),
    )
    return Table("Pairs of views", columns, lines, note, in_terminal=True)


def _line(run: BenchRun, first: str, second: str) -> tuple[str, ...]:
    letters = sorted((first[0], second[0]), key=list(LETTERS).index)
    rows, mixture = run.of(first), "".join(letters) + first[1:]
    pair = compare(rows, run.of(second), run.of(mixture))
    longest = max((round_.depth for row in rows for round_ in row.rounds), default=0)
    return (
        f"{first}, {second}",
        str(pair.places.total()),
        percent(pair.share(True, True)),
        percent(pair.share(True, False)),
        percent(pair.share(False, True)),
        percent(pair.weaker),
        percent(pair.recovered),
        signed_percent(pair.expected_gain(longest)),
    )
