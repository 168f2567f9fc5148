"""`--help`: what people who chat need first, the rest under titles; tables on a narrow terminal."""

import re

import click
import pytest

from mmspec_cli.main import cli
from mmspec_terminal.help_pages import MOST_FIRST, TITLES, EverydayCommand
from support.commands import Run

MANY = 10
"""Options from which on a help page has titles."""


def pages(command=cli, words=()):
    """The words of every command that is no group, with the command."""
    context = click.Context(command)
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    for name in command.list_commands(context):
        yield from pages(command.get_command(context, name), (*words, name))


PAGES = dict(pages())


def sections(text: str) -> dict[str, list[str]]:
    """The options of each titled section of a help page."""
    found: dict[str, list[str]] = {}
    _, title, options = text.partition("Options:\n")
    for line in (title + options).splitlines():
        if line and not line.startswith(" ") and line.endswith(":"):
            found[line.removesuffix(":")] = []
        elif match := re.match(r"  (?:-h, )?(--[a-z-]+)", line):
            found[list(found)[-1]].append(match[1])
    return found


@pytest.mark.parametrize("command", ["chat", "generate", "serve"])
def test_help_is_one_screen_and_help_all_shows_every_option(run: Run, command):
    page = run(command, "--help").out
    assert len(page.splitlines()) <= 40
    [(_, shown)] = sections(page).items()
    assert {"--draft", "--temperature", "--max-new-tokens", "--help", "--help-all"} <= {*shown}
    assert not {"--adaptive", "--weights", "--tree-width", "--captions", "--exact"} & {*shown}
    assert "--tree-width" in run(command, "--help-all").out


@pytest.mark.parametrize("words", PAGES)
def test_every_option_is_described_and_under_one_title(run: Run, words):
    options = [param for param in PAGES[words].params if isinstance(param, click.Option)]
    assert [param.opts[-1] for param in options if not param.help] == []
    everyday = isinstance(PAGES[words], EverydayCommand)
    page = run(*words.split(), "--help-all" if everyday else "--help").out
    shown = sections(page)
    listed = [option for each in shown.values() for option in each]
    assert sorted(listed) == sorted({*(param.opts[-1] for param in options), "--help"})
    if len(options) > MANY:
        assert len(shown["Options"]) <= MOST_FIRST
        assert {param.opts[-1] for param in options if param.required} <= {*shown["Options"]}
    assert max(map(len, page.splitlines())) <= 80
    assert [title for title in shown if title in TITLES] == [
        title for title in TITLES if title in shown
    ]


def test_a_group_shows_whole_sentences(run: Run):
    for name in ("models", "bench", "train"):
        assert "..." not in run(name, "--help").out.partition("Commands:")[2]


@pytest.fixture
def narrow(monkeypatch):
    """Make stdout pass for a terminal of 60 columns."""

    def become() -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "60")
        monkeypatch.setenv("TERM", "xterm")

    return become


@pytest.mark.parametrize("plain", [[], ["--plain"]])
@pytest.mark.parametrize("words", ["models list", "models show mini", "doctor"])
def test_tables_fit_a_narrow_terminal_and_break_no_name(run: Run, narrow, words, plain):
    narrow()
    out = re.sub(r"\x1b\[[\d;]*m", "", run(*words.split(), *plain).out)
    assert max(map(len, out.splitlines())) <= 60
    for name in ("mini", "Apache-2.0") if "show" in words else ("llava-1.5-13b", "mini-medusa"):
        assert name in out


def test_the_chat_s_help_fits_a_narrow_terminal(run: Run, narrow, pair):
    narrow()
    out = re.sub(r"\x1b\[[\d;]*m", "", run("chat", *pair, stdin="/help").out)
    assert max(map(len, out.splitlines())) <= 60
    assert "/max-new-tokens [N]" in out


def leaves(command, path=()):
    """Every command that is no group, by its words."""
    if not isinstance(command, click.Group):
        return {path: command}
    context = click.Context(command)
    names = command.list_commands(context)
    found = [leaves(command.get_command(context, name), (*path, name)) for name in names]
    return {words: leaf for every in found for words, leaf in every.items()}


def test_every_command_that_computes_takes_a_number_of_threads():
    """Those that choose a backend or a device compute; those of `models` read and write files."""
    computes = {
        words: {option for param in leaf.params for option in param.opts}
        for words, leaf in leaves(cli).items()
        if words[0] != "models"
    }
    assert len([words for words, options in computes.items() if "--threads" in options]) > 10
    assert not {
        words
        for words, options in computes.items()
        if options & {"--backend", "--device", "--backends"} and "--threads" not in options
    }
