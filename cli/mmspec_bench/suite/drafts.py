"""Several drafts of one target: loads them, finds the one of a method, and its parameters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from mmspec.chat.engine import Engine, load
from mmspec.chat.models import Models
from mmspec.chat.options import Options
from mmspec.chat.plugins import is_kind
from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.head_manifest import OUTPUT, head_manifest
from mmspec.checkpoints.manifest import manifest
from mmspec.drafters.views import AND_LOOKUP, WITHOUT_MODEL
from mmspec.ground.errors import UsageError, choice
from mmspec_bench.suite.methods import Method

DECODER = ("language_model.", "lm_head.")
"""Beginnings of the canonical names of tensors that every token reads."""


def load_drafts(drafts: Iterable[str], models: Mapping[str, Any], options: Options) -> list[Engine]:
    """Load the target and each draft once: one engine for each; models: keywords of `load`."""
    engines: list[Engine] = []
    for draft in dict.fromkeys(drafts):
        if not engines:
            engines.append(load(**models, draft=draft, options=options, ready=False))
        elif draft not in map(_name, engines):
            engine = load(**{**models, "model": engines[0].target, "draft": draft}, ready=False)
            engines.append(replace(engine, exactness=engines[0].exactness))
            engines[-1].prepare(options)
    return engines


def engine_for(method: Method, engines: Sequence[Engine]) -> Engine:
    """The engine of the draft that the method names or that alone can do it, else UsageError."""
    if method.drafting in WITHOUT_MODEL or (len(engines) == 1 and not method.draft):
        return engines[0]
    by_name = {_name(engine): engine for engine in engines}
    if method.draft:
        if method.draft not in by_name:
            raise choice("draft", method.draft, by_name)
        return by_name[method.draft]
    kind = method.drafting.removesuffix(AND_LOOKUP)
    able = [
        name
        for name, engine in by_name.items()
        if (engine.head.kind == kind if engine.head else engine.draft and not is_kind(kind))
    ]
    if len(able) == 1:
        return by_name[able[0]]
    reason = f"no draft can do it, of {', '.join(by_name)}: name another with --draft"
    if able:
        choices = " or ".join(f"{method.name}@{name}" for name in able)
        reason = f"more than one draft can do it: give {choices}"
    raise UsageError(f"--methods: {method.name}: {reason}")


def _name(engine: Engine) -> str:
    return engine.drafts.name if engine.drafts else "none"


def drafted_share(models: Models) -> float:
    """Parameters read for a drafted token over those read for a token of the target; 0 without.

    Of a draft these are its decoder's. Of a head they are its own, those of one slot if it has
    slots, and a whole output matrix, its own or the target's.
    """
    target = _decoder(models.target.model.config)
    if models.head:
        config = models.head.head.config
        tensors = head_manifest(config)
        output = prod(tensors.pop(OUTPUT, (config.hidden_size, config.vocab_size)))
        return (sum(map(prod, tensors.values())) / (config.slots or 1) + output) / target
    return _decoder(models.draft.model.config) / target if models.draft else 0.0


def _decoder(config: ModelConfig) -> int:
    shapes = manifest(config).items()
    return sum(prod(shape) for name, shape in shapes if name.startswith(DECODER))
