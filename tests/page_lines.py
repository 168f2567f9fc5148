"""The lines of docs/results.md that show tables beside it, or their ends.

    python tests/page_lines.py

A test compares the page with them.
"""

import csv
import re
from collections.abc import Iterator
from typing import Any

from results import BACKENDS, NAMES, PAGES, ROUNDS, Line

ENDS = ("", "_low", "_high")
VIEWS = ("M", "T", "MT", "MTC", "adaptive:MTC")
DRAFTERS = {f"mini-{kind}": f"`mini-{kind}`" for kind in ("dspark", "eagle3", "msd", "flash")}
DRAFTERS |= {"mini-draft, M (text: T)": "`mini-draft`, view M"}
"""The page's names of drafters by the table's."""


def page_lines() -> list[str]:
    """The lines of the page; the first cell of a program's line has words of its own."""
    return [*speed_lines(), *auto_lines(), *peer_lines(), *head_lines(), *view_lines()]


def speed_lines() -> Iterator[str]:
    """Two draft lengths beside plain decoding."""
    for line in (line for line in read("speed") if line["method"] != "plain"):
        name = f"{NAMES[line['backend']]}, {line['method']}".replace(
            "gamma", "\N{GREEK SMALL LETTER GAMMA}"
        )
        rate, times = spread(line, "tokens_per_second", 0), spread(line, "times_plain", 2)
        default = ", the default" if "+lookup" in name and name.endswith("auto") else ""
        yield f"| {name}{default} | {rate} | {times} | {line['tokens_per_round']:.2f} |"


def auto_lines() -> Iterator[str]:
    """`--gamma auto` and the best fixed choice."""
    rows = read("auto")
    for backend in BACKENDS:
        cells = []
        for kind in ROUNDS:
            own = [row for row in rows if (row["backend"], row["prompts"]) == (backend, kind)]
            [chosen] = (row["overall"] for row in own if row["method"].endswith("auto"))
            best = max(row["overall"] for row in own if not row["method"].endswith("auto"))
            cells.append(f"{chosen:.2f}, {best:.2f}")
        yield " | ".join([f"| {NAMES[backend]}", *cells]) + " |"


def peer_lines() -> Iterator[str]:
    """The ends of the lines of programs: plain decoding, then lookup."""
    programs: dict[tuple[float, str], list[str]] = {}
    for line in read("peers_smollm2"):
        program = line["bits"], line["program"].partition(",")[0]
        cells = [spread(line, "tokens_per_second", 1), spread(line, "times_first", 2)]
        programs.setdefault(program, []).extend(cells)
    for cells in programs.values():
        yield " | ".join(["", *cells]) + " |" * (5 - len(cells))


def head_lines() -> Iterator[str]:
    """Drafters of `mini` as chains and trees; speeds below plain decoding's are bold."""
    columns = ("million parameters", "ms a drafted token", "chain", "tree 24", "tree 60")
    rows = {line["drafter"]: line for line in words("heads")}
    for drafter, name in DRAFTERS.items():
        cells = [re.sub(r", (0\.\d+ .)", r", **\1**", rows[drafter][each]) for each in columns]
        yield " | ".join([f"| {name}", *cells]) + " |"


def view_lines() -> Iterator[str]:
    """Views and mixtures: tokens per round, the difference from M, and by images."""
    rows = read("views")
    for method in VIEWS:
        by_images = [row for row in rows if row["method"] == method]
        total, *parts = (f"{row['tokens_per_round']:.2f}" for row in by_images)
        change = ""
        if method != VIEWS[0]:
            middle, low, high = (100 * by_images[0][f"difference{end}"] for end in ENDS)
            change = f"{middle:+.1f} % [{low:+.1f}..{high:+.1f}]"
        yield " | ".join(["", total, change, *parts, ""]).replace("|  |", "| |").rstrip()


def read(table: str) -> list[Line]:
    """The lines of a table, numbers as such."""
    return [{k: number(v) for k, v in line.items()} for line in words(table)]


def words(table: str) -> list[dict[str, str]]:
    """The lines of a table."""
    with (PAGES / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


def number(word: str) -> Any:
    """A number if the word is one, else the word."""
    try:
        return float(word)
    except ValueError:
        return word


def spread(line: Line, name: str, digits: int) -> str:
    """A median with the ends of its range, as the page writes it; 1 alone for plain decoding."""
    value, least, most = (f"{line[name + end]:.{digits}f}" for end in ("", "_least", "_most"))
    return value if least == most else f"{value} [{least}..{most}]"


if __name__ == "__main__":
    print("\n".join(page_lines()))  # noqa: T201
