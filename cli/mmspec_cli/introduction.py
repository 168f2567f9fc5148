"""What is said of loaded models before the first answer."""

from mmspec.chat.engine import PREFERRED, Engine
from mmspec.checkpoints.cards import load_cards


def introduction(engine: Engine) -> list[str]:
    """The engine's notes and, for the bundled model, its abilities and limits."""
    card = load_cards().get(engine.target.name)
    if card is None or card.bundled is None:
        return engine.notes
    get = f"mmspec models pull {PREFERRED}"
    return [*engine.notes, f"{card.name}: {card.note} ({get})"]
