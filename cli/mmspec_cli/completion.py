"""`mmspec completion`: what a shell needs to complete commands, options, models and files."""

import click
from click.shell_completion import ShellComplete, get_completion_class

from mmspec_cli.main import cli

SHELLS = ("bash", "zsh", "fish")

ZSH_START = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }\n"
"""Starts zsh's completion where ~/.zshrc has not, as on a new Mac."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion of mmspec for a shell.

    In ~/.bashrc or ~/.zshrc: eval "$(mmspec completion bash)", or zsh. For fish: mmspec completion
    fish > ~/.config/fish/completions/mmspec.fish.
    """
    kind = get_completion_class(shell)
    assert kind
    # Not the kind's own method, which starts the shell to ask for its version.
    script = ShellComplete.source(kind(cli, {}, "mmspec", "_MMSPEC_COMPLETE"))
    click.echo(ZSH_START * (shell == "zsh") + script)
