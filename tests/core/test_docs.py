"""The pages in docs/, README, CONTRIBUTING and the cards: short, wrapped, and true of the tree."""

import csv
import re
import shlex
from pathlib import Path

import pytest
from page_lines import page_lines

from support.known_options import unknown_options

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
CARDS = sorted((ROOT / "models" / "mmspec_models").glob("*/README.md"))
OTHERS = ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "tests/README")
TEXTS = [*PAGES, *(ROOT / f"{name}.md" for name in OTHERS), *CARDS]
GENERATED = "cli.md"
MOST_PAGES = 12
"""Pages written by hand; a page for each kind of user and task."""
MOST_LINES = 1570
"""Lines of the pages written by hand, without Python."""
COLUMNS = 100


def name(path):
    return str(path.relative_to(ROOT))


def lines(page):
    """Lines outside fenced code, numbered; indented code and tables included."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def code_blocks(page):
    """Lines of indented and fenced code, continued lines joined."""
    fenced, block = False, []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            block.append(line.strip())
    return re.sub(r"\\\n", " ", "\n".join(block)).splitlines()


def anchors(page):
    """The anchors that GitHub gives the headings."""
    heads = (line.lstrip("#").strip().lower() for _, line in lines(page) if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in heads}


def test_the_pages_are_few_and_short():
    assert len(PAGES) <= MOST_PAGES
    by_hand = [page.read_text(encoding="utf-8") for page in PAGES if page.name != GENERATED]
    texts = [re.sub(r"```python\n.*?```", "", text, flags=re.DOTALL) for text in by_hand]
    assert sum(len(text.splitlines()) for text in texts) <= MOST_LINES


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_prose_is_wrapped(page):
    code = "    ", "|"
    wide = [n for n, line in lines(page) if len(line) > COLUMNS and not line.startswith(code)]
    assert not wide


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_links_and_images_lead_somewhere(page):
    text = "\n".join(line for _, line in lines(page))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, place = target.partition("#")
        if "://" in target:
            continue
        path = (page.parent / file).resolve() if file else page
        if not path.exists() or (place and place not in anchors(path)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_files_named_in_backticks_exist(page):
    text = "\n".join(line for _, line in lines(page))
    named = re.findall(r"`((?:mmspec|backends|cli|models|tests|docs|\.ci)/[\w./-]*)`", text)
    assert not [file for file in named if not (ROOT / file).exists()]


def commands(page):
    """The mmspec commands of a page's code: words without comments, pipes and redirections."""
    for line in code_blocks(page):
        found = re.search(r"(?:^|[$(;|] ?|\bin )(mmspec(?: .*)?)$", line)
        if found:
            yield shlex.split(re.split(r" [|>&]|\)$", found[1])[0], comments=True)[1:]


TABLES = ROOT / "docs" / "results"


def test_every_table_has_its_command_and_its_link():
    commands = (TABLES / "commands.txt").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    named = re.findall(r"^(\w+\.csv): .*?^    \w", commands, re.DOTALL | re.MULTILINE)
    files = sorted(file.name for file in TABLES.glob("*.csv"))
    assert named == files
    assert [name for name in files if f"](results/{name})" not in page] == []


def test_answers_of_real_models_are_those_of_their_file():
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    section = page.partition("## Answers of real models")[2].partition("\n## ")[0]
    heads, *lines = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
    _, _, first, _, *topics = heads.split(" | ")
    with (TABLES / "replay.csv").open(newline="", encoding="utf-8") as opened:
        names = ("model", "method", "memory", "topic")
        figures = {tuple(e[name] for name in names): e for e in csv.DictReader(opened)}
    assert len(lines) > 1
    for line in lines:
        run, memory, *cells = line.split(" | ")
        place = (*re.findall("`(.*?)`", run), memory.strip("-"))
        found = [figures[(*place, topic)] for topic in (first, *topics)]
        rates = [interval(each) for each in found]
        nodes = f"{float(found[0]['nodes_per_round']):.2f}"
        assert cells == [rates[0], nodes, *rates[1:]]


def test_cards_of_heads_have_the_figures_of_their_table():
    with (TABLES / "heads.csv").open(newline="", encoding="utf-8") as opened:
        rows = {row["drafter"]: row for row in csv.DictReader(opened)}
    for card in CARDS:
        text = " ".join(card.read_text(encoding="utf-8").split())
        if found := re.search(r"gets (\S+) tokens per round as a chain and (\S+) as a tree", text):
            row = rows[card.parent.name]
            assert list(found.groups()) == [row[k].partition(",")[0] for k in ("chain", "tree 60")]


def test_speeds_are_those_of_their_files():
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert [line for line in page_lines() if line not in page] == []


def interval(entry):
    """A value with the ends of its interval, as pages write it."""
    value, low, high = (f"{float(entry[name]):.2f}" for name in ("tokens_per_round", "low", "high"))
    return f"{value} [{low}..{high}]"


COMMANDS = [
    pytest.param(words, id=f"{name(page)}: {' '.join(words)[:60]}")
    for page in (*TEXTS, TABLES / "commands.txt")
    for words in commands(page)
]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_of_the_docs_is_one_that_the_program_takes(words):
    """Names and options are known; values are not looked at, and nothing is run."""
    assert unknown_options(words) == []
