"""What a shell completes: names of cards, and directories."""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem


def complete_model(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    """Targets with a card, or directories if none begins so."""
    return _cards("target", ["auto"], typed)


def complete_draft(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    """Drafts and heads with a card, or directories if none begins so."""
    return _cards("draft", ["auto", "none"], typed)


def _cards(kind: str, words: Iterable[str], typed: str) -> list[CompletionItem]:
    from mmspec.checkpoints.cards import load_cards

    names = [*words, *(name for name, card in load_cards().items() if kind in card.uses)]
    fitting = [CompletionItem(name) for name in names if name.startswith(typed)]
    return fitting or [CompletionItem(typed, type="dir")]
