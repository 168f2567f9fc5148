"""`--help` and the file of defaults: what people need first, and every option."""

import re
from unittest.mock import Mock

import click
import pytest

from mmspec_cli.main import cli
from mmspec_terminal.help_pages import EverydayCommand
from mmspec_train.settings import Budget


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


TABLES = ["models list", "models list --plain", "models show mini", "doctor --full"]


@pytest.mark.parametrize("words", TABLES)
def test_tables_fit_a_narrow_terminal_and_break_no_name(run, monkeypatch, words):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    out = re.sub(r"\x1b\[[\d;]*m", "", run(*words.split()).out)
    assert max(map(len, out.splitlines())) <= 60
    for name in ("mini", "Apache-2.0") if "show" in words else ("llava-1.5-13b", "mini-medusa"):
        assert name in out


@pytest.fixture
def config(monkeypatch, tmp_path):
    """A function that writes the file of defaults."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "mmspec/config.toml"
    file.parent.mkdir()
    return file.write_text


def test_an_option_has_the_file_s_value_unless_it_is_given(chat, config):
    config(
        "max-new-tokens = 3\nport = 9\n[chat]\nsystem = 'Be brief.'\nplain = true\n"
        "[serve]\nmax-new-tokens = 5\n[bench.speed]\ngamma = 'auto'\n"
    )
    talk = chat("/system", "/max-new-tokens", models=[])
    assert talk.notices == ["system text: Be brief.", "an answer has at most 3 tokens"]
    own = ["--max-new-tokens", "4"]
    assert "at most 4 " in chat("/max-new-tokens", models=own).notices[0]
    config("max-new-tokens = -1\n")
    assert "config.toml" in chat(models=[]).err
    assert "config.toml" not in chat(models=["--max-new-tokens", "-1"]).err


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("model = 'mini'", "models show minii"),
        ("[bench.run]\nlimit = 5", "chat --repeat-limit -5"),
        ("[chat]\ngamma = 6", "chat --model gamma-64"),
    ],
)
def test_an_error_about_another_value_does_not_name_the_file(run, config, text, arguments):
    config(text)
    status, _, err = run(*arguments.split())
    assert (status, "config.toml" in err) == (2, False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[chat]\nmodle = 'x'", "'modle'"),
        ("modl = 'mini'", "unknown option in FILE 'modl'"),
        ("[chatt]\nseed = 1", "unknown table in FILE 'chatt'"),
        ("[bench.spede]\nseed = 1", "'spede'"),
        ("[bench.speed]\nmax-new-tokens = -1", "(in FILE)"),
        ("[bench]\nspeed = 3", "speed = 3 in FILE: speed is a command"),
        ("model = ", "cannot be read as TOML"),
        ("[chat]\ngamma = 'many'", 'gamma = "many" in FILE'),
        ("[chat]\nmax-new-tokens = true", "max-new-tokens = true in FILE: give INTEGER"),
        ("[chat]\nmax-new-tokens = 3.5", "max-new-tokens = 3.5 in FILE"),
        ("[chat]\ndraft-text = 'a'", 'draft-text = "a" in FILE: give a list of FILE'),
        ('[bench.speed]\nout = "a\\u0000"', 'out = "a\\u0000" in FILE: leave the zero byte out'),
        ("system = 'Sé brève.'", "FILE cannot be read: byte 11 is not UTF-8: convert it"),
        ("plain = 'yes'", 'plain = "yes" in FILE: give true or false'),
    ],
)
def test_a_wrong_file_is_one_line(refused, config, tmp_path, text, words):
    config(text, encoding="latin1")
    words = words.replace("FILE", str(tmp_path / "mmspec/config.toml"), 1)
    refused(*(["bench", "speed"] if "bench" in text else ["chat"]), words=[words])


def test_typed_minutes_win_over_the_steps_of_the_file(run, refused, config, monkeypatch, tmp_path):
    train = Mock()
    monkeypatch.setattr("mmspec_train.targets.train_target.train_target", train)
    command = "train", "target", "--language", "mini", "--out", tmp_path
    config("steps = 3")
    run(*command, "--minutes", "9")
    assert train.call_args.args[1] == Budget(minutes=9)
    config("minutes = 2\n[train.target]\nsteps = 3")
    refused(*command, words=["--steps 3 and --minutes 2.0: give one of them", "config.toml"])


def test_doctor_shows_the_defaults_but_no_secret(run, config):
    config("seed = 7\napi-key = 'hush'\n[serve]\napi_key = 'hush'\nport = 9\n")
    out = run("doctor").out
    assert "seed = 7" in out
    assert "'port': 9" in out
    assert "hush" not in out
    config("modl = 'mini'")
    doctor = run("doctor")
    assert (doctor.status, "'modl'" in doctor.out) == (1, True)
