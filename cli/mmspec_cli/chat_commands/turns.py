"""Commands about the questions, answers and options of a chat."""

from dataclasses import replace

from mmspec.chat.chat import Chat
from mmspec.drafters.views import LOOKUP, PLAIN
from mmspec.ground.errors import UsageError, choice
from mmspec.prompt.conversation import Conversation
from mmspec_cli.terminal.answer import stats_report
from mmspec_cli.terminal.dialogue import Dialogue
from mmspec_terminal.wording import quantity

BACK = "; /undo brings the conversation back"
"""End of a notice that the conversation has been replaced."""


def whole_number(name: str, argument: str, most: int | None = None) -> int:
    """The number after the command `name`, from 1 to `most` if given; raises UsageError."""
    try:
        number = int(argument)
    except ValueError as error:
        raise UsageError(f"{name} {argument}: give a whole number, such as 100") from error
    if most is not None and not 1 <= number <= most:
        raise UsageError(f"{name} {number}: give a number from 1 to {most}")
    return number


def _switch(name: str, argument: str, *, current: bool) -> bool:
    """What `on` or `off` after the command `name` means; `current` without a word."""
    if not argument:
        return current
    if argument not in ("on", "off"):
        raise choice(f"setting of {name}", argument, ["on", "off"])
    return argument == "on"


def reset(dialogue: Dialogue) -> None:
    """Forget the conversation; also /clear."""
    is_undoable = dialogue.resume(Conversation(dialogue.chat.conversation.system))
    dialogue.notice("started again" + BACK * is_undoable)


def drop(dialogue: Dialogue, argument: str) -> None:
    """Forget the first N questions; alone: how many there are."""
    number = len(dialogue.chat.conversation.turns)
    if not argument:
        dialogue.notice(f"{quantity(number, 'question')} so far; /drop N forgets the first N")
        return
    if not number:
        raise UsageError(f"/drop {argument}: there is no question yet")
    dialogue.forget(whole_number("/drop", argument, number), BACK)


def system(dialogue: Dialogue, text: str) -> None:
    """Show or set how to answer, such as: Answer in German. `/system clear` removes it."""
    conversation = dialogue.chat.conversation
    if text:
        conversation.system = None if text == "clear" else text
    is_set = conversation.system is not None
    dialogue.notice(f"system text: {conversation.system}" if is_set else "no system text")


def history(dialogue: Dialogue) -> None:
    """Show the conversation."""
    turns = dialogue.chat.conversation.turns
    if not turns:
        dialogue.notice("no question yet")
        return
    records, lines = [], []
    for number, turn in enumerate(turns, 1):
        text = " ".join(part for part in turn.question.parts if isinstance(part, str))
        images = [picture.name for picture in turn.question.pictures]
        records.append({"question": text, "images": images, "answer": turn.answer_text})
        names = f" [{', '.join(images)}]" if images else ""
        lines += [f"{number}>{names} {text}", turn.answer_text]
    dialogue.screen.tell({"history": records}, lines)


def stats(dialogue: Dialogue) -> None:
    """Show the time and tokens of the last answer."""
    chat, answer = dialogue.chat, dialogue.chat.answer
    statistics, estimate, gain = answer.statistics, answer.plain_estimate, answer.speed_up
    exact = chat.models.exact_rows(chat.options.exact)
    exact_line = exact.line() if exact else "off; `mmspec doctor --full` says why"
    figures = {
        "drafting": answer.drafting.spec,
        "weights": " ".join(f"{weight:.2f}" for weight in answer.weights),
        "rounds": str(statistics.rounds),
        "tokens": str(statistics.tokens),
        "gamma": _gamma(chat),
        "exact": f"{chat.options.exact}: {exact_line}",
        "tokens per round": f"{statistics.block_efficiency:.2f}",
        "drafted, accepted": f"{statistics.drafted}, {statistics.accepted}",
        "rounds drafted by lookup": str(statistics.lookup_rounds),
        "accepted": f"{statistics.acceptance_rate:.0%}",
        "tokens per second": f"{statistics.tokens_per_second:.1f}",
        "plain decoding, estimate, s": f"{estimate:.3f}" if estimate else "",
        "times as fast as plain": f"{gain:.2f}" if gain else "",
        "prompt, cached": f"{statistics.prompt_tokens}, {statistics.cached_tokens}",
        **{f"{stage}, s": f"{seconds:.3f}" for stage, seconds in statistics.seconds.items()},
        "peak memory, GB": f"{statistics.peak_memory_bytes / 1e9:.2f}",
    }
    rows = [(name, figure) for name, figure in figures.items() if figure]
    dialogue.screen.show(stats_report(chat), ["last answer", ""], rows)


def _gamma(chat: Chat) -> str:
    """The draft length; for 'auto' its mean, and the reason if it is 0. '' without drafting."""
    if chat.answer.drafting == PLAIN:
        return ""
    if chat.options.gamma != "auto":
        return str(chat.options.gamma)
    mean = f"auto, {chat.answer.statistics.draft_length:.1f} drafted a round"
    reason = (chat.answer.plain_reason or "").removeprefix("gamma auto: ")
    return f"{mean}; {reason}" if reason else mean


def spec(dialogue: Dialogue, argument: str) -> None:
    """on: answer with the draft; off: without it. The text is the same."""
    chat = dialogue.chat
    if chat.plain:
        spec = "auto" if chat.models.drafts else LOOKUP.spec
        raise UsageError(f"nothing is drafted in this chat: /drafting {spec} drafts")
    chat.speculate = _switch("/spec", argument, current=chat.speculate)
    dialogue.notice("speculative decoding" if dialogue.chat.speculate else "plain decoding")


def mark_accepted(dialogue: Dialogue, argument: str) -> None:
    """Mark the words that the draft proposed."""
    screen = dialogue.screen
    screen.marks_accepted = _switch("/accepted", argument, current=screen.marks_accepted)
    negation = "" if screen.marks_accepted else "not "
    dialogue.notice(f"drafted tokens that were kept are {negation}marked")


def markdown(dialogue: Dialogue, argument: str) -> None:
    """Show answers as Markdown, or off: with its signs."""
    screen = dialogue.screen
    screen.markdown = _switch("/markdown", argument, current=screen.markdown)
    form = "as Markdown" if screen.markdown else "as they are"
    if screen.markdown and screen.marks_accepted:
        form = "as they are while /accepted is on"
    dialogue.notice(f"answers are shown {form}")


def model(dialogue: Dialogue, name: str) -> None:
    """Show the model, or go on with another."""
    if name:
        dialogue.switch(name)
    models = dialogue.chat.models
    draft = models.drafts.name if models.drafts else "none"
    place = f"{models.backend.name} on {models.target.model.device}"
    dialogue.notice(f"model {models.target.name}, draft {draft}, {place}")


def max_new_tokens(dialogue: Dialogue, argument: str) -> None:
    """Show or set the most tokens of an answer."""
    chat = dialogue.chat
    if argument:
        number = whole_number("/max-new-tokens", argument)
        chat.change(replace(chat.options, max_new_tokens=number))
    dialogue.notice(f"an answer has at most {quantity(chat.options.max_new_tokens, 'token')}")


def temperature(dialogue: Dialogue, argument: str) -> None:
    """Show or set the temperature; 0 takes the likeliest."""
    chat = dialogue.chat
    if argument:
        try:
            number = float(argument)
        except ValueError as error:
            raise UsageError(f"/temperature {argument}: give a number, such as 0.7") from error
        sampling = replace(chat.options.sampling, temperature=number)
        chat.change(replace(chat.options, sampling=sampling))
    likeliest = " (the likeliest token)" * chat.options.sampling.greedy
    dialogue.notice(f"temperature {chat.options.sampling.temperature:g}{likeliest}")


def drafting(dialogue: Dialogue, argument: str) -> None:
    """Show or set what drafts: auto, none, lookup, or views such as M or MT."""
    chat = dialogue.chat
    if argument:
        chat.change(replace(chat.options, drafting=argument))
    last = f"; the last answer: {chat.answer.drafting.spec}" * bool(chat.answer.rounds)
    dialogue.notice(f"drafting {chat.options.drafting or 'auto'}{last}")
