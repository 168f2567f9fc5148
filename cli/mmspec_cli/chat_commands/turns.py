"""Commands about the questions and answers of a chat."""

from mmspec.drafters.views import PLAIN
from mmspec.ground.errors import UsageError
from mmspec.prompt.conversation import Conversation, Turn
from mmspec_cli.chat_commands import words
from mmspec_cli.terminal.answer import stats_report
from mmspec_cli.terminal.dialogue import Dialogue

BACK = "; /undo brings the conversation back"
"""End of a notice that the conversation has been replaced."""


def retry(dialogue: Dialogue, _: str) -> None:
    """Answer the last question again."""
    dialogue.retry()


def undo(dialogue: Dialogue, _: str) -> None:
    """Undo the last turn or replacement."""
    dialogue.notice(dialogue.undo())


def reset(dialogue: Dialogue, _: str) -> None:
    """Start a new conversation with the same system text."""
    undoable = dialogue.resume(Conversation(dialogue.chat.conversation.system))
    dialogue.notice("started again" + BACK * undoable)


def drop(dialogue: Dialogue, argument: str) -> None:
    """Forget the first questions, so that later ones have room."""
    number = words.count("/drop", argument)
    conversation = dialogue.chat.conversation
    asked = len(conversation.turns)
    if not 1 <= number <= asked:
        allowed = f"give a number from 1 to {asked}" if asked else "there is no turn yet"
        raise UsageError(f"/drop {argument}: {allowed}")
    dialogue.resume(Conversation(conversation.system, conversation.turns[number:]))
    dialogue.notice(f"forgot the first {words.counted(number, 'question')}{BACK}")


def system(dialogue: Dialogue, text: str) -> None:
    """Set the system text."""
    dialogue.chat.conversation.system = text
    dialogue.notice("system text set")


def history(dialogue: Dialogue, _: str) -> None:
    """Show every question and answer."""
    turns = dialogue.chat.conversation.turns
    if not turns:
        dialogue.notice("no question yet")
        return
    records = [
        {"question": _asked(turn), "images": _names(turn), "answer": turn.answer_text}
        for turn in turns
    ]
    lines = [line for number, turn in enumerate(turns, 1) for line in _shown(number, turn)]
    dialogue.tell({"history": records}, lines)


def _asked(turn: Turn) -> str:
    return " ".join(part for part in turn.question.parts if isinstance(part, str))


def _names(turn: Turn) -> list[str]:
    return [picture.name for picture in turn.question.pictures]


def _shown(number: int, turn: Turn) -> list[str]:
    names = f" [{', '.join(_names(turn))}]" if turn.question.pictures else ""
    return [f"{number}>{names} {_asked(turn)}", turn.answer_text]


def stats(dialogue: Dialogue, _: str) -> None:
    """Show what the last answer cost."""
    statistics = dialogue.chat.answer.statistics
    rows = [
        ("drafting", dialogue.chat.answer.drafting.spec),
        ("weights", " ".join(f"{weight:.2f}" for weight in dialogue.chat.answer.weights)),
        ("rounds", str(statistics.rounds)),
        ("tokens", str(statistics.tokens)),
        *_gamma(dialogue),
        ("exact", _exact(dialogue)),
        ("tokens per round", f"{statistics.block_efficiency:.2f}"),
        ("drafted, accepted", f"{statistics.drafted}, {statistics.accepted}"),
        ("accepted", f"{statistics.acceptance_rate:.0%}"),
        ("tokens per second", f"{statistics.tokens_per_second:.1f}"),
        ("prompt, cached", f"{statistics.prompt_tokens}, {statistics.cached_tokens}"),
        *((f"{stage}, s", f"{spent:.3f}") for stage, spent in statistics.seconds.items()),
        ("peak memory, GB", f"{statistics.peak_memory_bytes / 1e9:.2f}"),
    ]
    dialogue.show(stats_report(dialogue.chat), ["last answer", ""], rows)


def _exact(dialogue: Dialogue) -> str:
    """The mode of `--exact`, and the rows that it gave; 'off' for ordinary forwards."""
    mode = dialogue.chat.options.exact
    rows = dialogue.chat.models.exact_rows(mode)
    return f"{mode}: {rows.line() if rows else 'off; `mmspec doctor` says why'}"


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
