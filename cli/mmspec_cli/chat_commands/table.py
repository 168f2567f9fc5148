"""The table of a chat's commands, and how a line is run as one of them."""

import re
from collections.abc import Callable
from inspect import getdoc

from mmspec.ground.errors import UsageError, choice
from mmspec_cli.chat_commands import files, turns
from mmspec_cli.terminal.dialogue import Dialogue

EXIT_WORDS = ("exit", "quit")
"""Lines that leave the chat as /quit does."""

ALIASES = {
    **dict.fromkeys((*EXIT_WORDS, "/exit", "/bye"), "/quit"),
    **dict.fromkeys(("?", "help", "/?"), "/help"),
    "/clear": "/reset",
    "/images": "/image",
}
"""Commands by other lines that people type for them."""


def is_command(line: str) -> bool:
    """True if a line is a command; false for `/a/path.png`."""
    return line.lower() in ALIASES or re.match(r"/[A-Za-z?-]*(\s|$)", line) is not None


def run_command(dialogue: Dialogue, line: str) -> None:
    """Run the line's command; raises UsageError with the nearest name for an unknown one."""
    dialogue.offer = None
    word = line.split()[0]
    argument = line.removeprefix(word).strip()
    name = ALIASES.get(word.lower(), word.lower())
    if name not in COMMANDS:
        raise choice("command", word, COMMANDS)
    parameter, run = COMMANDS[name]
    if argument and not parameter:
        raise UsageError(f"{name} takes nothing after it: leave {argument!r} out")
    run(dialogue, *([argument] if parameter else []))


def _help(dialogue: Dialogue) -> None:
    """Show this; also ?."""
    rows = [(f"{name} {value}", getdoc(run) or "") for name, (value, run) in COMMANDS.items()]
    rows += [
        ("a path in a question", "Sends that image with it."),
        ('"""', "Starts and ends a question of several lines."),
        ("Ctrl-C", "Stops the answer."),
        (f"{' or '.join(EXIT_WORDS)}, alone", "Leaves, as /quit and Ctrl-D do."),
    ]
    dialogue.screen.show({"help": {name.strip(): text for name, text in rows}}, ["", ""], rows)


def _quit(dialogue: Dialogue) -> None:
    """Leave."""
    dialogue.is_leaving = True


COMMANDS: dict[str, tuple[str, Callable[..., None]]] = {
    "/image": ("[PATH...]", files.image),
    "/paste": ("", files.paste),
    "/unstage": ("[NAME]", files.unstage),
    "/retry": ("", Dialogue.retry),
    "/continue": ("", Dialogue.extend),
    "/undo": ("", Dialogue.undo),
    "/history": ("", turns.history),
    "/drop": ("[N]", turns.drop),
    "/reset": ("", turns.reset),
    "/system": ("[TEXT]", turns.system),
    "/save": ("[FILE]", files.save),
    "/load": ("[FILE]", files.load),
    "/sessions": ("[N]", files.sessions),
    "/model": ("[NAME]", turns.model),
    "/max-new-tokens": ("[N]", turns.max_new_tokens),
    "/temperature": ("[T]", turns.temperature),
    "/drafting": ("[SPEC]", turns.drafting),
    "/spec": ("[on|off]", turns.spec),
    "/accepted": ("[on|off]", turns.mark_accepted),
    "/markdown": ("[on|off]", turns.markdown),
    "/stats": ("", turns.stats),
    "/help": ("", _help),
    "/quit": ("", _quit),
}
"""By name the argument, '' for none, and the function that runs the command, with its help.

Without its argument a command shows what it would change.
"""
