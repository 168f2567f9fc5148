"""The JSON objects of `generate --json` and `/stats`."""

from dataclasses import asdict
from typing import Any

from mmspec.chat.chat import Chat
from mmspec.decoding.tree import Tree


def stats_report(chat: Chat) -> dict[str, Any]:
    """The drafting and costs of the last answer, as `/stats` prints them."""
    answer = chat.answer
    return {
        "drafting": answer.drafting.spec,
        "weights": [round(weight, 6) for weight in answer.weights],
        "gamma": chat.options.gamma,
        **chat.models.exact_fields(chat.options.exact),
        "stats": answer.statistics.as_dict(),
    }


def answer_report(chat: Chat) -> dict[str, Any]:
    """The last answer with its models and options."""
    models, answer = chat.models, chat.answer
    adaptive, tree = chat.options.adaptive, chat.options.tree
    return {
        "text": answer.text,
        "token_ids": answer.token_ids,
        "prompt_tokens": answer.statistics.prompt_tokens,
        "finish_reason": answer.finish_reason,
        "model": models.target.name,
        "draft": models.drafts.name if models.drafts else None,
        "backend": models.backend.name,
        "device": models.target.model.device,
        "dtype": models.target.model.dtype,
        "quantize": models.target.model.quantize,
        **stats_report(chat),
        "adaptive": asdict(adaptive) if adaptive else None,
        "tree": asdict(tree) if isinstance(tree, Tree) else tree,
        "notes": [*models.notes, *answer.notes],
    }
