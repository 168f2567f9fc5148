"""The command itself: errors, closed streams, completion, and the page that describes it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cli_reference import reference

from mmspec.prompt.images import FORMAT_NAMES
from mmspec_cli.completion import SHELLS
from mmspec_cli.main import COMMANDS, main

ASK = ["generate", "--prompt", "x"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chta"], ["'chta'", "nearest: chat"]),
        (["what " * 60], ["unknown command", "use chat"]),
        ([__file__], [f"mmspec chat {__file__}"]),
        (["generate"], ["--prompt", "mmspec generate --help"]),
        (["generate", "--prompt", " "], ["--prompt is empty"]),
        ([*ASK, "--model", "minni"], ["'minni'", "nearest: mini"]),
        ([*ASK, "--model", "some/where"], ["some/where", "models pull"]),
        (["chat", "--model", "llava-1.5-13b"], ["llava-1.5-13b", "models pull"]),
        ([*ASK, "--backend", "toch"], ["'toch'", "nearest: torch"]),
        ([*ASK, "--weights", "1,b"], ["1,b", "2,1,1"]),
        ([*ASK, "--weights", "1"], ["--weights needs --drafting"]),
        ([*ASK, "nowhere.png"], ["nowhere.png", "cannot be read"]),
        ([*ASK, "--model", "mini-msd"], ["mini-msd is a head", "draft of"]),
        ([*ASK, "--draft", "mini-msd", "--drafting", "MT"], ["use msd"]),
        ([*ASK, "--draft", "mini-msd", "--adaptive"], ["--adaptive"]),
        ([*ASK, "--gamma", "many"], ["'many'", "auto"]),
        ([*ASK, "--drafting", "MT", "--pool", "36"], ["--pool 36", "with a P"]),
        ([*ASK, "--drafting", "none", "--adaptive"], ["--adaptive needs a --drafting"]),
        ([*ASK, "--drafting", "lookup", "--adaptive"], ["--adaptive", "'lookup'"]),
        ([*ASK, "--drafting", "msd"], ["--drafting msd needs a head"]),
        ([*ASK, "--draft", "none", "--adaptive"], ["--adaptive needs a draft"]),
        ([*ASK, "--tree-nodes", "5"], ["--tree-nodes needs --tree"]),
        ([*ASK, "--draft", "none", "--drafting", "M"], ["--drafting M needs a draft", "--draft"]),
        ([*ASK, "--device", "cuba"], ["'cuba'", "nearest: cuda"]),
        ([*ASK, "--dtype", "float8"], ["float8", "float32"]),
        (["check", "--prompt", "x", "--drafting", "none"], ["--draft"]),
        (["chat", "no\x1bwhere.png"], ["where.png", "cannot be read"]),
        (["bench", "peers", "--peers", "mlx,tgi"], ["unknown peer 'tgi'"]),
        (["bench", "peers", "--drafting", "M,XQ"], ["unknown drafting 'XQ'"]),
        (["bench", "peers", "--gamma", "0"], ["--gamma 0"]),
        (["bench", "speed", "--captions", "no.jsonl"], ["cannot read no.jsonl"]),
        (["bench", "speed", "--repeats", "0"], ["--repeats"]),
    ],
)
def test_errors_are_one_line_that_says_what_to_do(refused, monkeypatch, arguments, words):
    monkeypatch.setattr("mmspec.chat.engine.load_backend", None)  # no framework is needed for it
    refused(*arguments, words=words)


@pytest.mark.skipif(torch.version.cuda is not None, reason="this PyTorch has CUDA")
def test_a_device_that_this_framework_has_not_is_refused(refused):
    refused(*ASK, "--device", "cuda", words=["'cuda' is not on this machine: use cpu"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["models", "list"],
        ["generate", "--prompt", "hi", "--json", *(FEW := ["--max-new-tokens", "2"])],
        ["chat", *FEW],
        ["check", "--prompt", "hi", *FEW],
    ],
    ids=" ".join,
)
def test_a_command_whose_reader_left_ends_as_by_sigpipe(
    run, models, monkeypatch, capsys, arguments
):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        result = run(*arguments, *(models if FEW[0] in arguments else []), stdin="hi\n")
    assert result.status == 141
    assert "Traceback" not in result.err


NO_IMAGE = f"mmspec: standard input: not an image that can be read: {FORMAT_NAMES} are\n"
NO_OUTPUT = "mmspec: standard output is closed: nothing could be shown\n"


@pytest.mark.parametrize(
    ("closing", "arguments", "status", "said"),
    [
        ("<&-", ["-", "--prompt", "What?"], 2, NO_IMAGE),
        (">&-", ["--prompt", "Hello?"], 2, NO_OUTPUT),
        ("<&- 2>&-", ["--prompt", "Hello?", "--backend", "mlx"], 0, ""),
    ],
)
def test_a_closed_stream_is_one_line_and_no_file_takes_its_place(
    pair, closing, arguments, status, said
):
    """MLX reads no file at descriptor 0, and what is written to 2 must reach none."""
    command = [sys.executable, "-m", "mmspec_cli", "generate", *pair, *arguments]
    shell = ["sh", "-c", f'exec "$@" {closing}', "sh", *command]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (status, said)
    assert bool(done.stdout) == (status == 0)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_accepts_its_script(run, shell):
    script = run("completion", shell).out
    assert "_MMSPEC_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("mmspec ", [f"plain,{name}" for name in COMMANDS]),
        ("mmspec cht ", [f"plain,{name}" for name in COMMANDS]),
        ("mmspec chat --resu", ["plain,--resume"]),
        ("mmspec chat --model min", ["plain,mini"]),
        ("mmspec chat --model ./m", ["dir,./m"]),
        ("mmspec chat --draft mini-me", ["plain,mini-medusa"]),
        ("mmspec generate pho", ["file,pho"]),
    ],
)
def test_bash_is_offered_commands_options_models_and_files(monkeypatch, capsys, line, names):
    monkeypatch.setenv("_MMSPEC_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    with pytest.raises(SystemExit):
        main([])
    out, err = capsys.readouterr()
    assert (out.split(), err) == (names, "")


def test_the_page_is_current():
    page = Path(__file__).parents[2] / "docs/cli.md"
    assert page.read_text(encoding="utf-8") == reference(), "run `make docs-cli`"
