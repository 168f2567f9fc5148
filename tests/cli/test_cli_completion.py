"""Completion in shells: scripts that the shells accept, and what is offered."""

import shutil
import subprocess

import pytest

from mmspec_cli.completion import SHELLS
from mmspec_cli.main import COMMANDS, main


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_accepts_its_script(run, shell):
    script = run("completion", shell).out
    assert "_MMSPEC_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_where_its_completion_was_not_started(run, tmp_path, monkeypatch):
    monkeypatch.setenv("ZDOTDIR", str(tmp_path))  # where zsh writes what it found
    script = run("completion", "zsh").out
    shell = ["zsh", "-f", "-c", f"{script}\nprint $_comps[mmspec]"]
    done = subprocess.run(shell, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("_mmspec_completion\n", "")


def offered(monkeypatch, capsys, line: str) -> list[str]:
    """What bash is offered at the end of a line."""
    monkeypatch.setenv("_MMSPEC_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    with pytest.raises(SystemExit):
        main([])
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("mmspec ", [f"plain,{name}" for name in COMMANDS]),
        ("mmspec chat --resu", ["plain,--resume"]),
        ("mmspec chat --model min", ["plain,mini"]),
        ("mmspec chat --model ./m", ["dir,./m"]),
        ("mmspec chat --draft mini-me", ["plain,mini-medusa"]),
        ("mmspec generate pho", ["file,pho"]),
    ],
)
def test_commands_options_models_and_files_are_completed(monkeypatch, capsys, line, names):
    assert offered(monkeypatch, capsys, line) == names
