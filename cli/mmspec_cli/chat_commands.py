"""What a line that starts with / does in a chat."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmspec.drafting import PLAIN
from mmspec.errors import MmspecError, UsageError, choice
from mmspec.paths import typed_path
from mmspec_cli.report import stats_report

LEAVING = ("exit", "quit")
"""What people type who want to leave, and no model was ever asked."""

BACK = "; /undo brings the conversation back"

if TYPE_CHECKING:
    from mmspec_cli.talk import Talk


@dataclass(frozen=True, slots=True)
class Command:
    """A name, what it takes, what it is for, and what it does with that."""

    argument: str
    help: str
    run: Callable[["Talk", str], None]


def is_command(line: str) -> bool:
    """Whether a line is meant for the chat itself; `/a/path.png` is not."""
    return re.match(r"/[A-Za-z?]*(\s|$)", line) is not None


def run_command(talk: "Talk", line: str) -> None:
    """Do what the line says; raises UsageError with the nearest name for an unknown one."""
    name, _, argument = line.partition(" ")
    command = COMMANDS.get(name.lower())
    if command is None:
        raise choice("command", name, COMMANDS)
    argument = argument.strip()
    if command.argument and not argument:
        raise UsageError(f"{name} needs {command.argument}: {name} {command.argument}")
    if argument and not command.argument:
        raise UsageError(f"{name} takes nothing after it: leave {argument!r} out")
    command.run(talk, argument)


def _image(talk: "Talk", path: str) -> None:
    talk.stage_file(_path(path))


def _images(talk: "Talk", _: str) -> None:
    rows = [
        (f"question {number}", picture)
        for number, turn in enumerate(talk.chat.conversation.turns, 1)
        for picture in turn.question.pictures
    ]
    rows += [("next question", picture) for picture in talk.staged]
    if not rows:
        talk.tell("no images yet: /image PATH")
        return
    columns = ["with", "image", "size"]
    cells = [
        [where, picture.name, f"{picture.image.width}x{picture.image.height}"]
        for where, picture in rows
    ]
    talk.show({"images": [dict(zip(columns, row, strict=True)) for row in cells]}, columns, cells)


def _stats(talk: "Talk", _: str) -> None:
    statistics = talk.chat.answer.statistics
    rows = [
        ("drafting", talk.chat.answer.drafting.word),
        ("weights", " ".join(f"{weight:.2f}" for weight in talk.chat.answer.weights)),
        ("rounds", str(statistics.rounds)),
        ("tokens", str(statistics.tokens)),
        *_gamma(talk),
        ("tokens per round", f"{statistics.block_efficiency:.2f}"),
        ("drafted, accepted", f"{statistics.drafted}, {statistics.accepted}"),
        ("accepted", f"{statistics.acceptance_rate:.0%}"),
        ("tokens per second", f"{statistics.tokens_per_second:.1f}"),
        ("prompt, cached", f"{statistics.prompt_tokens}, {statistics.cached_tokens}"),
        *((f"{stage}, s", f"{spent:.3f}") for stage, spent in statistics.seconds.items()),
        ("peak memory, GB", f"{statistics.peak_memory_bytes / 1e9:.2f}"),
    ]
    talk.show(stats_report(talk.chat), ["last answer", ""], rows)


def _gamma(talk: "Talk") -> list[tuple[str, str]]:
    """The draft length where anything is drafted: of 'auto' its mean, or why it came to none."""
    chat = talk.chat
    if chat.answer.drafting == PLAIN:
        return []
    if chat.options.gamma != "auto":
        return [("gamma", str(chat.options.gamma))]
    mean = f"auto, {chat.answer.statistics.draft_length:.1f} drafted a round"
    return [("gamma", "; ".join(filter(None, [mean, chat.verdict()])))]


def _spec(talk: "Talk", argument: str) -> None:
    if talk.chat.plain:
        raise UsageError("there is no draft to speculate with: start with --draft NAME")
    talk.chat.speculate = _switch("/spec", argument)
    talk.tell("speculative decoding" if talk.chat.speculate else "plain decoding")


def _accepted(talk: "Talk", argument: str) -> None:
    talk.screen.accepted = _switch("/accepted", argument)
    shown = "are marked" if talk.screen.accepted else "are no longer marked"
    talk.tell(f"drafted tokens that were kept {shown}")


def _switch(name: str, argument: str) -> bool:
    if argument not in ("on", "off"):
        raise choice(f"setting of {name}", argument, ["on", "off"])
    return argument == "on"


def _reset(talk: "Talk", _: str) -> None:
    from mmspec.conversation import Conversation

    kept = talk.go_on(Conversation(talk.chat.conversation.system))
    talk.tell("started again" + BACK * kept)


def _undo(talk: "Talk", _: str) -> None:
    talk.tell(talk.undo())


def _retry(talk: "Talk", _: str) -> None:
    talk.retry()


def _system(talk: "Talk", text: str) -> None:
    talk.chat.conversation.system = text
    talk.tell("system text set")


def _save(talk: "Talk", name: str) -> None:
    file = typed_path(_path(name))
    if file.exists() and file.suffix != ".json":
        raise UsageError(f"{name} exists: name a new file, or one that ends in .json")
    try:
        file.write_text(talk.chat.conversation.to_json(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name} cannot be written ({error.strerror})") from error
    talk.tell(f"saved to {name}")


def _load(talk: "Talk", name: str) -> None:
    from mmspec.conversation import Conversation

    try:
        text = typed_path(_path(name)).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} cannot be read (not text in UTF-8)") from error
    try:
        kept = talk.go_on(Conversation.from_json(text))
    except MmspecError as error:
        raise UsageError(f"{name} was not loaded: {error}") from error
    talk.tell(f"went on from {name}" + BACK * kept)


def _path(typed: str) -> str:
    """A path as typed: quoted, or with a backslash before its spaces."""
    if len(typed) > 1 and typed[0] == typed[-1] and typed[0] in "'\"":
        return typed[1:-1]
    return re.sub(r"\\(.)", r"\1", typed)


def _help(talk: "Talk", _: str) -> None:
    rows = [(f"{name} {command.argument}", command.help) for name, command in COMMANDS.items()]
    rows += [
        ("a path in a question", "sends that image with it"),
        ('"""', "starts and ends a question of several lines"),
        ("Ctrl-C", "stops the answer"),
        (f"{' or '.join(LEAVING)}, alone", "leaves, as /quit and Ctrl-D do"),
    ]
    talk.show({"help": {name.strip(): told for name, told in rows}}, ["", ""], rows)


def _quit(talk: "Talk", _: str) -> None:
    talk.leaving = True


COMMANDS = {
    "/image": Command("PATH", "send an image with the next question", _image),
    "/images": Command("", "list the images, asked about and waiting", _images),
    "/retry": Command("", "answer the last question again", _retry),
    "/undo": Command("", "take back the last question and its answer, a /reset or a /load", _undo),
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
