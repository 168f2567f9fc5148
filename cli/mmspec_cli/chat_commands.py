"""The commands of a chat: lines that start with /."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from mmspec.checkpoints.paths import expand_home
from mmspec.drafters.views import PLAIN
from mmspec.errors import MmspecError, UsageError, choice
from mmspec.prompt.conversation import Conversation
from mmspec.prompt.images import open_picture
from mmspec_cli.report import stats_report
from mmspec_cli.terminal.dialogue import Dialogue

LEAVING = ("exit", "quit")
"""Lines that leave the chat as /quit does."""

BACK = "; /undo brings the conversation back"
"""End of a notice that the conversation has been replaced."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the chat: its argument, its help, and the function that runs it."""

    argument: str
    help: str
    run: Callable[[Dialogue, str], None]


def is_command(line: str) -> bool:
    """True if a line is a command; false for `/a/path.png`."""
    return re.match(r"/[A-Za-z?]*(\s|$)", line) is not None


def run_command(dialogue: Dialogue, line: str) -> None:
    """Run the line's command; raises UsageError with the nearest name for an unknown one."""
    name, _, argument = line.partition(" ")
    command = COMMANDS.get(name.lower())
    if command is None:
        raise choice("command", name, COMMANDS)
    argument = argument.strip()
    if command.argument and not argument:
        raise UsageError(f"{name} needs {command.argument}: {name} {command.argument}")
    if argument and not command.argument:
        raise UsageError(f"{name} takes nothing after it: leave {argument!r} out")
    command.run(dialogue, argument)


def _image(dialogue: Dialogue, path: str) -> None:
    dialogue.stage([open_picture(_path(path))])


def _images(dialogue: Dialogue, _: str) -> None:
    rows = [
        (f"question {number}", picture)
        for number, turn in enumerate(dialogue.chat.conversation.turns, 1)
        for picture in turn.question.pictures
    ]
    rows += [("next question", picture) for picture in dialogue.staged]
    if not rows:
        dialogue.notice("no images yet: /image PATH")
        return
    columns = ["with", "image", "size"]
    cells = [
        [where, picture.name, f"{picture.image.width}x{picture.image.height}"]
        for where, picture in rows
    ]
    dialogue.show(
        {"images": [dict(zip(columns, row, strict=True)) for row in cells]}, columns, cells
    )


def _stats(dialogue: Dialogue, _: str) -> None:
    statistics = dialogue.chat.answer.statistics
    rows = [
        ("drafting", dialogue.chat.answer.drafting.spec),
        ("weights", " ".join(f"{weight:.2f}" for weight in dialogue.chat.answer.weights)),
        ("rounds", str(statistics.rounds)),
        ("tokens", str(statistics.tokens)),
        *_gamma(dialogue),
        ("tokens per round", f"{statistics.block_efficiency:.2f}"),
        ("drafted, accepted", f"{statistics.drafted}, {statistics.accepted}"),
        ("accepted", f"{statistics.acceptance_rate:.0%}"),
        ("tokens per second", f"{statistics.tokens_per_second:.1f}"),
        ("prompt, cached", f"{statistics.prompt_tokens}, {statistics.cached_tokens}"),
        *((f"{stage}, s", f"{spent:.3f}") for stage, spent in statistics.seconds.items()),
        ("peak memory, GB", f"{statistics.peak_memory_bytes / 1e9:.2f}"),
    ]
    dialogue.show(stats_report(dialogue.chat), ["last answer", ""], rows)


def _gamma(dialogue: Dialogue) -> list[tuple[str, str]]:
    """The draft length; for 'auto' its mean, and the reason if it is 0. Empty without drafting."""
    chat = dialogue.chat
    if chat.answer.drafting == PLAIN:
        return []
    if chat.options.gamma != "auto":
        return [("gamma", str(chat.options.gamma))]
    mean = f"auto, {chat.answer.statistics.draft_length:.1f} drafted a round"
    reason = (chat.answer.plain_reason or "").removeprefix("gamma auto: ")
    return [("gamma", f"{mean}; {reason}" if reason else mean)]


def _spec(dialogue: Dialogue, argument: str) -> None:
    if dialogue.chat.plain:
        raise UsageError("there is no draft to speculate with: start with --draft NAME")
    dialogue.chat.speculate = _switch("/spec", argument)
    dialogue.notice("speculative decoding" if dialogue.chat.speculate else "plain decoding")


def _accepted(dialogue: Dialogue, argument: str) -> None:
    dialogue.screen.accepted = _switch("/accepted", argument)
    state = "are marked" if dialogue.screen.accepted else "are no longer marked"
    dialogue.notice(f"drafted tokens that were kept {state}")


def _switch(name: str, argument: str) -> bool:
    if argument not in ("on", "off"):
        raise choice(f"setting of {name}", argument, ["on", "off"])
    return argument == "on"


def _reset(dialogue: Dialogue, _: str) -> None:
    undoable = dialogue.resume(Conversation(dialogue.chat.conversation.system))
    dialogue.notice("started again" + BACK * undoable)


def _system(dialogue: Dialogue, text: str) -> None:
    dialogue.chat.conversation.system = text
    dialogue.notice("system text set")


def _save(dialogue: Dialogue, name: str) -> None:
    file = expand_home(_path(name))
    if file.exists() and file.suffix != ".json":
        raise UsageError(f"{name} exists: name a new file, or one that ends in .json")
    try:
        file.write_text(dialogue.chat.conversation.to_json(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name} cannot be written ({error.strerror})") from error
    dialogue.notice(f"saved to {name}")


def _load(dialogue: Dialogue, name: str) -> None:
    try:
        text = expand_home(_path(name)).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} cannot be read (not text in UTF-8)") from error
    try:
        undoable = dialogue.resume(Conversation.from_json(text))
    except MmspecError as error:
        raise UsageError(f"{name} was not loaded: {error}") from error
    dialogue.notice(f"went on from {name}" + BACK * undoable)


def _path(typed: str) -> str:
    """The path in a command's argument, in which quotes or backslashes may protect spaces."""
    if len(typed) > 1 and typed[0] == typed[-1] and typed[0] in "'\"":
        return typed[1:-1]
    return re.sub(r"\\(.)", r"\1", typed)


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
    "/image": Command("PATH", "send an image with the next question", _image),
    "/images": Command("", "list the images, asked about and waiting", _images),
    "/retry": Command("", "answer the last question again", lambda dialogue, _: dialogue.retry()),
    "/undo": Command(
        "",
        "take back the last question and its answer, a /reset or a /load",
        lambda dialogue, _: dialogue.notice(dialogue.undo()),
    ),
    "/reset": Command("", "forget the conversation", _reset),
    "/system": Command("TEXT", "set the system text", _system),
    "/save": Command("FILE", "write the conversation to a file", _save),
    "/load": Command("FILE", "go on with a conversation from a file", _load),
    "/spec": Command("on|off", "decode speculatively, or plainly", _spec),
    "/accepted": Command("on|off", "mark drafted tokens that were kept", _accepted),
    "/stats": Command("", "show what the last answer cost", _stats),
    "/help": Command("", "show this", _help),
    "/quit": Command("", "leave", _quit),
}
