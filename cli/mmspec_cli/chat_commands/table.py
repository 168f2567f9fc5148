"""The table of a chat's commands, and how a line is run as one of them."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from mmspec.ground.errors import UsageError, choice
from mmspec_cli.chat_commands import files, pictures, settings, turns
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
    """A command of the chat: its argument, its help, and the function that runs it.

    argument: '' for none; within brackets if it may be left out.
    """

    argument: str
    help: str
    run: Callable[[Dialogue, str], None]

    @property
    def needs(self) -> bool:
        """True if the command needs its argument."""
        return bool(self.argument) and not self.argument.startswith("[")


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
    if command.needs and not argument:
        raise UsageError(f"{name} needs {command.argument}: {name} {command.argument}")
    if argument and not command.argument:
        raise UsageError(f"{name} takes nothing after it: leave {argument!r} out")
    command.run(dialogue, argument)


def _help(dialogue: Dialogue, _: str) -> None:
    rows = [(f"{name} {command.argument}", command.help) for name, command in COMMANDS.items()]
    rows += [
        ("a path in a question", "sends that image with it"),
        ('"""', "starts and ends a question of several lines"),
        ("Ctrl-C", "stops the answer"),
        (f"{' or '.join(LEAVING)}, alone", "leaves, as /quit and Ctrl-D do"),
    ]
    dialogue.show({"help": {name.strip(): text for name, text in rows}}, ["", ""], rows)


def _quit(dialogue: Dialogue, _: str) -> None:
    dialogue.leaving = True


COMMANDS = {
    "/image": Command("PATH...", "send images with the next question; *.png works", pictures.image),
    "/images": Command("", "list the images, asked about and waiting", pictures.images),
    "/paste": Command("", "send the image on the clipboard", pictures.paste),
    "/unstage": Command("[NAME]", "take back an image that is waiting", pictures.unstage),
    "/retry": Command("", "answer the last question again", turns.retry),
    "/undo": Command(
        "", "take back the last question and its answer, a /reset, /drop or /load", turns.undo
    ),
    "/history": Command("", "show the conversation", turns.history),
    "/drop": Command("N", "forget the first N questions", turns.drop),
    "/reset": Command("", "forget the conversation; also /clear", turns.reset),
    "/system": Command("TEXT", "set the system text", turns.system),
    "/save": Command("FILE", "write the conversation to a file", files.save),
    "/load": Command("FILE", "go on with a conversation from a file", files.load),
    "/sessions": Command("[N]", "list the conversations kept, or go on with one", files.sessions),
    "/model": Command("[NAME]", "show the model, or go on with another", settings.model),
    "/max-new-tokens": Command(
        "[N]", "show or set the most tokens of an answer", settings.max_new_tokens
    ),
    "/temperature": Command(
        "[T]", "show or set the temperature; 0 takes the likeliest", settings.temperature
    ),
    "/drafting": Command(
        "[SPEC]", "show or set what is drafted from, such as M, MT, ngram, auto", settings.drafting
    ),
    "/spec": Command("on|off", "decode speculatively, or plainly", settings.spec),
    "/accepted": Command("on|off", "mark drafted tokens that were kept", settings.accepted),
    "/markdown": Command("on|off", "show answers as Markdown, or as they are", settings.markdown),
    "/stats": Command("", "show what the last answer cost", turns.stats),
    "/help": Command("", "show this; also ?", _help),
    "/quit": Command("", "leave", _quit),
}
