"""Which draft side answers a prompt: what is asked for, what fits, and how it is opened."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmspec.config import read_config
from mmspec.conversation import Chunk
from mmspec.drafting import NGRAM, UNLETTERED, Branch, Drafting, fit, parse_drafting
from mmspec.errors import UsageError
from mmspec.images import Picture
from mmspec.ngram import NgramDrafter
from mmspec.options import Options
from mmspec.registry import head_kind
from mmspec.seam import Target
from mmspec.session import DraftSide

if TYPE_CHECKING:
    from mmspec.engine import Engine
    from mmspec.loaded import LoadedModel

TYPICAL_ANSWER = 128
"""Positions a branch must have left after its prompt to be worth starting."""

SECOND_VIEW = 1.04
"""Tokens a round of MT over M's on pairs of images; 1.00 on single ones (IbED, Tables 1a to 6)."""
PAIR = 2
"""On more images M alone keeps next to nothing: 1.17 tokens a round against 1.92 (there)."""


def word_for(engine: "Engine", options: Options, chunks: Sequence[Chunk]) -> str:
    """The drafting asked for; by default a head's kind, or M and T where there are images, or T.

    Where draft lengths follow costs, known ones may leave M alone.
    """
    if options.drafting:
        return options.drafting
    if engine.head:
        return engine.head.kind
    if engine.draft is None:
        return engine.draftless
    sees = engine.draft.model.config.vision is not None
    images = sum(1 for _ in pictures(chunks)) if sees else 0
    if not images:
        return "T"
    return "MT" if _text_pays(engine, engine.draft, options, images) else "M"


def _text_pays(engine: "Engine", draft: "LoadedModel", options: Options, images: int) -> bool:
    """Whether the view T is worth what it adds to a round; beyond two images it always is."""
    if options.gamma != "auto" or options.adaptive or options.tree or images > PAIR:
        return True
    views = [parse_drafting(word, draft.model.config) for word in ("M", "MT")]
    paces = engine.calibration.paces(views)
    return paces is None or SECOND_VIEW * paces[1] >= paces[0]


def drafting_for(engine: "Engine", options: Options, chunks: Sequence[Chunk]) -> Drafting:
    """What the options ask for, or the default; raises UsageError for what cannot be had."""
    word = word_for(engine, options, chunks)
    if word in UNLETTERED:
        return UNLETTERED[word]
    if engine.head:
        _require_kind(options, engine.head.name, engine.head.kind, word)
        return Drafting((engine.target.view,), (1.0,), word)
    if options.names_head:
        raise UsageError(f"--drafting {word} needs a head of that kind: name one with --draft")
    if engine.draft is None:
        raise UsageError(f"--drafting {word} needs a draft: name one with --draft")
    weights = options.weights if options.drafting else ()
    return parse_drafting(word, engine.draft.model.config, weights, options.pool)


def refuse(options: Options, name: str, directory: Path) -> None:
    """Raise UsageError for options that the draft in `directory` cannot do, by its config alone."""
    word = options.drafting
    if word in UNLETTERED:
        return
    if kind := head_kind(directory):
        _require_kind(options, name, kind, word or kind)
    elif options.names_head:
        raise UsageError(f"--drafting {word} needs a head of that kind: name one with --draft")
    elif word:
        parse_drafting(word, read_config(directory), options.weights, options.pool)


def _require_kind(options: Options, name: str, kind: str, word: str) -> None:
    """Raise UsageError for what a head of this kind cannot do."""
    if word != kind:
        raise UsageError(
            f"--drafting {word}: the draft {name} is a {kind} head: use {kind}, "
            f"{' or '.join(UNLETTERED)}"
        )
    if options.adaptive:
        raise UsageError(
            f"--adaptive weighs views of a draft model, and {name} is a {kind} head: leave it out"
        )


def fitting(
    engine: "Engine", options: Options, drafting: Drafting, chunks: Sequence[Chunk]
) -> tuple[Drafting, list[str]]:
    """The drafting with the branches for which a draft model has room, and a line per change."""
    draft = engine.draft
    if draft is None or drafting in UNLETTERED.values():
        return drafting, []
    views, config = draft.views(engine.caption), draft.model.config

    def length(branch: Branch) -> int:
        return views.length(chunks, branch)

    answer = min(options.max_new_tokens, TYPICAL_ANSWER)
    room = config.text.max_position_embeddings - answer
    return fit(drafting, room, length, config, options.overflow)


def open_side(
    engine: "Engine", options: Options, drafting: Drafting, target: Target
) -> DraftSide | None:
    """Open the side of a drafting beside `target`; None where nothing drafts."""
    if drafting == NGRAM:
        return DraftSide(NGRAM, engine.target.views(engine.caption), NgramDrafter(), None)
    if not drafting.branches:
        return None
    sampling, tree, adaptive = options.draft_sampling, options.tree, options.adaptive
    if engine.head:
        drafter = engine.head.head.open_drafter(target, sampling, tree)
        limit = engine.head.head.config.positions
        limit = None if options.overflow == "run" else limit
        return DraftSide(drafting, engine.target.views(engine.caption), drafter, limit)
    if engine.draft is None:
        raise ValueError(f"nothing loaded drafts {drafting.word}")
    model, vocabulary = engine.draft.model, engine.target.model.config.text.vocab_size
    drafter = model.open_drafter(len(drafting.branches), vocabulary, sampling, adaptive, tree)
    run = options.overflow == "run"
    limit = None if run else model.config.text.max_position_embeddings
    carry = adaptive is not None and adaptive.carry
    return DraftSide(drafting, engine.draft.views(engine.caption), drafter, limit, carry)


def pictures(chunks: Sequence[Chunk]) -> Iterator[Picture]:
    """The images of a prompt, in order."""
    return (part for chunk in chunks for part in chunk.parts if isinstance(part, Picture))
