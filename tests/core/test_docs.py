"""The pages in docs/, README, CONTRIBUTING and the cards: short, wrapped, and true of the tree."""

import re
import shlex
from pathlib import Path

import pytest
from page_lines import page_lines, read, words

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


def lines(page, fenced=False):
    """Lines outside fenced code, or those inside; indented code is outside."""
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside == fenced:
            yield line


def anchors(page):
    """The anchors that GitHub gives the headings."""
    heads = (line.lstrip("#").strip().lower() for line in lines(page) if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in heads}


def test_the_pages_are_few_and_short():
    assert len(PAGES) <= MOST_PAGES
    by_hand = [page.read_text(encoding="utf-8") for page in PAGES if page.name != GENERATED]
    texts = [re.sub(r"```python\n.*?```", "", text, flags=re.DOTALL) for text in by_hand]
    assert sum(len(text.splitlines()) for text in texts) <= MOST_LINES


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_prose_is_wrapped(page):
    code = "    ", "|"
    assert not [line for line in lines(page) if len(line) > COLUMNS and not line.startswith(code)]


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_links_and_images_lead_somewhere(page):
    text = "\n".join(lines(page))
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
    text = "\n".join(lines(page))
    named = re.findall(r"`((?:mmspec|backends|cli|models|tests|docs|\.ci)/[\w./-]*)`", text)
    assert not [file for file in named if not (ROOT / file).exists()]


def commands(page):
    """The mmspec commands of a page's code: words without comments, pipes and redirections."""
    code = [line for line in lines(page) if line.startswith("    ")] + [*lines(page, fenced=True)]
    for line in "\n".join(map(str.strip, code)).replace("\\\n", " ").splitlines():
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
    names = ("model", "method", "memory", "topic")
    figures = {tuple(row[name] for name in names): row for row in read("replay")}
    assert len(lines) > 1
    for line in lines:
        run, memory, *cells = line.split(" | ")
        place = (*re.findall("`(.*?)`", run), memory.strip("-"))
        found = [figures[(*place, topic)] for topic in (first, *topics)]
        rates = ["{tokens_per_round:.2f} [{low:.2f}..{high:.2f}]".format(**each) for each in found]
        assert cells == [rates[0], f"{found[0]['nodes_per_round']:.2f}", *rates[1:]]


def test_cards_of_heads_have_the_figures_of_their_table():
    rows = {row["drafter"]: row for row in words("heads")}
    for card in CARDS:
        text = " ".join(card.read_text(encoding="utf-8").split())
        if found := re.search(r"gets (\S+) tokens per round as a chain and (\S+) as a tree", text):
            row = rows[card.parent.name]
            assert list(found.groups()) == [row[k].partition(",")[0] for k in ("chain", "tree 60")]


def test_speeds_are_those_of_their_files():
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert [line for line in page_lines() if line not in page] == []


COMMANDS = [
    pytest.param(command, id=f"{name(page)}: {' '.join(command)[:60]}")
    for page in (*TEXTS, TABLES / "commands.txt")
    for command in commands(page)
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_docs_is_one_that_the_program_takes(command):
    """Names and options are known; values are not looked at, and nothing is run."""
    assert unknown_options(command) == []
