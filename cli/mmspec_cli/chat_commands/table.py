"""The table of a chat's commands, and how a line is run as one of them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc

from mmspec.ground.errors import UsageError, choice
from mmspec_cli.chat_commands import files, turns
from mmspec_cli.terminal.dialogue import Dialogue

LEAVING = ("exit", "quit")
"""Lines that leave the chat as /quit does."""

ALIASES = {
    **dict.fromkeys((*LEAVING, "/exit", "/bye"), "/quit"),
    **dict.fromkeys(("?", "help", "/?"), "/help"),
    "/clear": "/reset",
}
"""Commands by other lines that people type for them."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the chat: its argument, and the function that runs it, with its help.

    argument: '' for none; without one a command shows what it would change.
    """

    argument: str
    run: Callable[[Dialogue, str], None]

    @property
    def help(self) -> str:
        """What the command does, as `/help` says it: the function's docstring."""
        return getdoc(self.run) or ""


def is_command(line: str) -> bool:
    """True if a line is a command; false for `/a/path.png`."""
    return line.lower() in ALIASES or re.match(r"/[A-Za-z?-]*(\s|$)", line) is not None


def run_command(dialogue: Dialogue, line: str) -> None:
    """Run the line's command; raises UsageError with the nearest name for an unknown one."""
    typed, *rest = line.split(maxsplit=1)
    argument = "".join(rest).rstrip()
    name = ALIASES.get(typed.lower(), typed.lower())
    command = COMMANDS.get(name)
    if command is None:
        raise choice("command", typed, COMMANDS)
    if argument and not command.argument:
        raise UsageError(f"{name} takes nothing after it: leave {argument!r} out")
    command.run(dialogue, argument)


def _help(dialogue: Dialogue, _: str) -> None:
    """Show this; also ?."""
    rows = [(f"{name} {command.argument}", command.help) for name, command in COMMANDS.items()]
    rows += [
        ("a path in a question", "Sends that image with it."),
        ('"""', "Starts and ends a question of several lines."),
        ("Ctrl-C", "Stops the answer."),
        (f"{' or '.join(LEAVING)}, alone", "Leaves, as /quit and Ctrl-D do."),
    ]
    dialogue.show({"help": {name.strip(): text for name, text in rows}}, ["", ""], rows)


def _quit(dialogue: Dialogue, _: str) -> None:
    """Leave."""
    dialogue.leaving = True


COMMANDS = {
    "/image": Command("[PATH...]", files.image),
    "/images": Command("", files.images),
    "/paste": Command("", files.paste),
    "/unstage": Command("[NAME]", files.unstage),
    "/retry": Command("", turns.retry),
    "/continue": Command("", turns.extend),
    "/undo": Command("", turns.undo),
    "/history": Command("", turns.history),
    "/drop": Command("[N]", turns.drop),
    "/reset": Command("", turns.reset),
    "/system": Command("[TEXT]", turns.system),
    "/save": Command("[FILE]", files.save),
    "/load": Command("[FILE]", files.load),
    "/sessions": Command("[N]", files.sessions),
    "/model": Command("[NAME]", turns.model),
    "/max-new-tokens": Command("[N]", turns.max_new_tokens),
    "/temperature": Command("[T]", turns.temperature),
    "/drafting": Command("[SPEC]", turns.drafting),
    "/spec": Command("[on|off]", turns.spec),
    "/accepted": Command("[on|off]", turns.accepted),
    "/markdown": Command("[on|off]", turns.markdown),
    "/stats": Command("", turns.stats),
    "/help": Command("", _help),
    "/quit": Command("", _quit),
}
