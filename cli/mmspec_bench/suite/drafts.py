"""Several drafts of one target: loads them, and finds the one that a method asks for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mmspec.chat.engine import Engine, load
from mmspec.chat.options import Options
from mmspec.chat.plugins import is_kind
from mmspec.drafters.views import UNLETTERED
from mmspec.ground.errors import UsageError, choice
from mmspec_bench.suite.methods import Method


def load_drafts(drafts: Iterable[str], models: Mapping[str, Any], options: Options) -> list[Engine]:
    """Load the target once, and each draft once: one engine for each.

    models: keywords of `mmspec.chat.engine.load`, but for the draft and the options of answers.
    """
    engines: list[Engine] = []
    for draft in drafts:
        if not engines:
            engines.append(load(**models, draft=draft, options=options))
        elif draft not in map(_name, engines):
            engines.append(_beside(engines[0], draft, models))
            engines[-1].prepare(options)
    return engines


def _beside(first: Engine, draft: str, models: Mapping[str, Any]) -> Engine:
    engine = load(**{**models, "model": first.target, "draft": draft})
    return replace(engine, exactness=first.exactness)


def engine_for(method: Method, engines: Sequence[Engine]) -> Engine:
    """The engine whose draft the method names, or the only one whose draft can do it.

    Raises UsageError if no draft or more than one can.
    """
    if method.drafting in UNLETTERED or (len(engines) == 1 and not method.draft):
        return engines[0]
    names = [_name(engine) for engine in engines]
    if method.draft:
        if method.draft not in names:
            raise choice("draft", method.draft, names)
        return engines[names.index(method.draft)]
    able = [engine for engine in engines if _drafts(engine, method.drafting)]
    if len(able) == 1:
        return able[0]
    others = " or ".join(f"{method.name}@{_name(engine)}" for engine in able)
    raise UsageError(
        f"--methods: {method.name}: "
        + (f"more than one draft can do it: give {others}" if able else _unable(names))
    )


def _unable(names: Sequence[str]) -> str:
    return f"no draft can do it, of {', '.join(names)}: name another with --draft"


def _name(engine: Engine) -> str:
    return engine.drafts.name if engine.drafts else "none"


def _drafts(engine: Engine, drafting: str) -> bool:
    """True if the engine's draft can do a drafting: a kind of head, or letters of views."""
    return (
        engine.head.kind == drafting
        if engine.head
        else bool(engine.draft) and not is_kind(drafting)
    )
