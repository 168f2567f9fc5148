"""`--help`: what people who chat need, and every option; tables on a narrow terminal."""

import re

import click
import pytest

from mmspec_cli.main import cli
from mmspec_terminal.help_pages import EverydayCommand


def pages(command=cli, words=()):
    """The words of every command that is no group, with the command."""
    context = click.Context(command)
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    for name in command.list_commands(context):
        yield from pages(command.get_command(context, name), (*words, name))


PAGES = dict(pages())


def options(text: str) -> list[str]:
    """The options that a help page describes."""
    return re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text.partition("Options:\n")[2], re.MULTILINE)


@pytest.mark.parametrize("command", ["chat", "generate", "serve"])
def test_help_is_one_screen_and_help_all_shows_every_option(run, command):
    page = run(command, "--help").out
    assert len(page.splitlines()) <= 30
    shown = options(page)
    assert {"--draft", "--temperature", "--max-new-tokens", "--help", "--help-all"} <= {*shown}
    assert not {"--adaptive", "--weights", "--tree-width", "--captions", "--exact"} & {*shown}
    assert "--tree-width" in run(command, "--help-all").out


@pytest.mark.parametrize("words", PAGES)
def test_every_option_is_described_once(run, words):
    declared = [param for param in PAGES[words].params if isinstance(param, click.Option)]
    assert [param.opts[-1] for param in declared if not param.help] == []
    everyday = isinstance(PAGES[words], EverydayCommand)
    page = run(*words.split(), "--help-all" if everyday else "--help").out
    assert sorted(options(page)) == sorted({*(param.opts[-1] for param in declared), "--help"})
    assert max(map(len, page.splitlines())) <= 80


@pytest.fixture
def narrow(monkeypatch):
    """Make stdout pass for a terminal of 60 columns."""

    def become() -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", "60")
        monkeypatch.setenv("TERM", "xterm")

    return become


@pytest.mark.parametrize("plain", [[], ["--plain"]])
@pytest.mark.parametrize("words", ["models list", "models show mini", "doctor --full"])
def test_tables_fit_a_narrow_terminal_and_break_no_name(run, narrow, words, plain):
    narrow()
    out = re.sub(r"\x1b\[[\d;]*m", "", run(*words.split(), *plain).out)
    assert max(map(len, out.splitlines())) <= 60
    for name in ("mini", "Apache-2.0") if "show" in words else ("llava-1.5-13b", "mini-medusa"):
        assert name in out


def test_every_command_that_computes_takes_a_number_of_threads():
    """Those that choose a backend or a device compute; those of `models` read and write files."""
    computes = {
        words: {option for param in command.params for option in param.opts}
        for words, command in PAGES.items()
        if not words.startswith("models")
    }
    assert len([words for words, options in computes.items() if "--threads" in options]) > 10
    assert not {
        words
        for words, options in computes.items()
        if options & {"--backend", "--device", "--backends"} and "--threads" not in options
    }
