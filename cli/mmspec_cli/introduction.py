"""What is said of loaded models before the first answer."""

from mmspec.chat.engine import Engine
from mmspec.checkpoints.cards import load_cards


def introduction(engine: Engine) -> list[str]:
    """The engine's notes and, for the bundled model, its abilities and limits."""
    card = load_cards().get(engine.target.name)
    if card is None or card.bundled is None:
        return engine.notes
    return [*engine.notes, f"{card.name}: {card.note}"]
