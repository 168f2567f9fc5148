"""Commands that show and change the options of a chat."""

from dataclasses import replace

from mmspec.ground.errors import UsageError
from mmspec_cli.chat_commands import words
from mmspec_cli.terminal.dialogue import Dialogue


def spec(dialogue: Dialogue, argument: str) -> None:
    """Decode speculatively or plainly."""
    if dialogue.chat.plain:
        raise UsageError("there is no draft to speculate with: start with --draft NAME")
    dialogue.chat.speculate = words.switch("/spec", argument)
    dialogue.notice("speculative decoding" if dialogue.chat.speculate else "plain decoding")


def accepted(dialogue: Dialogue, argument: str) -> None:
    """Mark accepted draft tokens, or no longer."""
    dialogue.screen.accepted = words.switch("/accepted", argument)
    state = "are marked" if dialogue.screen.accepted else "are no longer marked"
    dialogue.notice(f"drafted tokens that were kept {state}")


def markdown(dialogue: Dialogue, argument: str) -> None:
    """Show answers as Markdown, or as the text that they are."""
    dialogue.screen.markdown = words.switch("/markdown", argument)
    state = "as Markdown" if dialogue.screen.markdown else "as they are"
    dialogue.notice(f"answers are shown {state}")


def model(dialogue: Dialogue, name: str) -> None:
    """Show the models, or go on with another target and its own draft."""
    if name:
        dialogue.switch(name)
    models = dialogue.chat.models
    draft = models.drafts.name if models.drafts else "none"
    where = f"{models.backend.name} on {models.target.model.device}"
    dialogue.notice(f"model {models.target.name}, draft {draft}, {where}")


def max_new_tokens(dialogue: Dialogue, argument: str) -> None:
    """Show or change the most tokens of an answer."""
    chat = dialogue.chat
    if argument:
        number = words.count("/max-new-tokens", argument)
        chat.change(replace(chat.options, max_new_tokens=number))
    dialogue.notice(f"an answer has at most {chat.options.max_new_tokens} tokens")


def temperature(dialogue: Dialogue, argument: str) -> None:
    """Show or change the temperature of sampling."""
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
    """Show or change what is drafted from."""
    chat = dialogue.chat
    if argument:
        chat.change(replace(chat.options, drafting=None if argument == "auto" else argument))
    chosen = chat.options.drafting or "auto"
    last = f"; the last answer: {chat.answer.drafting.spec}" * bool(chat.answer.rounds)
    dialogue.notice(f"drafting {chosen}{last}")
