"""An answer as the JSON object of `generate --json`, and its costs alone."""

from dataclasses import asdict
from typing import Any

from mmspec.chat import Chat


def stats_report(chat: Chat) -> dict[str, Any]:
    """What `/stats` prints: how the last answer was drafted and what it cost."""
    answer = chat.answer
    return {
        "drafting": answer.drafting.word,
        "weights": [round(weight, 6) for weight in answer.weights],
        "gamma": chat.options.gamma,
        "stats": answer.statistics.as_dict(),
    }


def answer_report(chat: Chat) -> dict[str, Any]:
    """The last answer with what made it."""
    engine, answer = chat.engine, chat.answer
    adaptive, tree = chat.options.adaptive, chat.options.tree
    return {
        "text": answer.text,
        "token_ids": answer.token_ids,
        "prompt_tokens": answer.statistics.prompt_tokens,
        "finish_reason": answer.finish_reason,
        "model": engine.target.name,
        "draft": engine.drafts.name if engine.drafts else None,
        "backend": engine.backend.name,
        "device": engine.target.model.device,
        "dtype": engine.target.model.dtype,
        "quantize": engine.target.model.quantize,
        **stats_report(chat),
        "adaptive": asdict(adaptive) if adaptive else None,
        "tree": asdict(tree) if tree else None,
        "skip_vision": chat.options.skip_vision,
        "notes": [*engine.notes, *answer.notes],
    }
