"""Chooses and opens the drafter of an answer, which a `Drafting` names."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mmspec.chat.loaded_model import LoadedHead
from mmspec.chat.models import Models
from mmspec.chat.options import Options, require_options
from mmspec.chat.session import OpenDrafter
from mmspec.checkpoints.config import ModelConfig, read_config
from mmspec.decoding.contract import Target
from mmspec.decoding.tree import Tree
from mmspec.drafters.heads.drafter import HeadDrafter
from mmspec.drafters.lookup import LookupDrafter
from mmspec.drafters.surer import SurerDrafter
from mmspec.drafters.view_drafter import ViewDrafter
from mmspec.drafters.views import AND_LOOKUP, LOOKUP, WITHOUT_MODEL, Drafting, fit, parse_drafting
from mmspec.ground.errors import UsageError
from mmspec.prompt.chunks import Chunk, pictures

TYPICAL_ANSWER = 128
"""Positions that a prompt must leave free in the draft's context for a view to be used."""

IMAGES_FOR_M = 2
"""Most images for which M is the default, and for which 'auto' pools a view that does not fit.

On five images M gives 1.17 tokens a round, T 2.05 (IbED).
"""


def spec_for(models: Models, options: Options, chunks: Sequence[Chunk]) -> str:
    """The drafting that the options name, as typed, or the default.

    The default is lookup beside the head, or beside views of the draft model: M with one or two
    images, MT with images if weights adapt, else T.
    """
    if options.drafting:
        return options.drafting
    if models.head:
        return models.head.kind + AND_LOOKUP
    if models.draft is None:
        return models.draftless
    images = len(list(pictures(chunks))) if models.draft.features else 0
    if options.adaptive:
        views = "MT" if images else "T"
    else:
        views = "M" if 0 < images <= IMAGES_FOR_M else "T"
    return views + AND_LOOKUP


def drafting_for(models: Models, options: Options, chunks: Sequence[Chunk] = ()) -> Drafting:
    """The drafting for a prompt; raises UsageError if the models cannot do what the options say."""
    require_options(options)
    spec = spec_for(models, options, chunks)
    base, with_lookup = spec.removesuffix(AND_LOOKUP), spec.endswith(AND_LOOKUP)
    if isinstance(options.tree, Tree) and models.recurrent:
        raise UsageError(
            f"`tree={options.tree.spec}`: {models.recurrent} has recurrent layers, whose state "
            "follows one path: leave `tree` out to draft chains"
        )
    if models.draft and spec not in WITHOUT_MODEL:
        views = _parse_views(options, base, models.draft.model.config)
        return replace(views, with_lookup=with_lookup)
    if models.head and spec not in WITHOUT_MODEL:
        _require_kind(options, models.head.name, models.head.kind, base)
        return Drafting((models.target.view,), (1.0,), base, with_lookup)
    if models.drafts is None:
        options.require_draft(models.draftless)
    return WITHOUT_MODEL[spec]


class DraftPlace(NamedTuple):
    """Where a draft is loaded from."""

    name: str
    directory: Path
    kind: str | None
    """A head's kind; None for a draft model."""


def refuse(options: Options, place: DraftPlace | LoadedHead | None, draftless: str) -> None:
    """Raise UsageError for options that a draft cannot do, or `draftless` without one."""
    require_options(options)
    spec = options.model_drafting
    if place is None:
        options.require_draft(draftless)
    elif place.kind and spec not in WITHOUT_MODEL:
        _require_kind(options, place.name, place.kind, spec or place.kind)
    elif spec not in WITHOUT_MODEL and isinstance(place, DraftPlace):
        _parse_views(options, spec or "T", read_config(place.directory))


def _parse_views(options: Options, spec: str, config: ModelConfig) -> Drafting:
    """Parse `spec` for a draft model with `config`; raises UsageError if it cannot draft so."""
    options.require_drafting()
    if options.names_head:
        raise UsageError(f"`drafting={spec}` needs a head of that kind: name one with `draft`")
    if config.text.delta_net and (options.adaptive or len(spec) > 1):
        option = "adaptive" if options.adaptive else f"drafting={spec}"
        raise UsageError(
            f"`{option}`: a draft with recurrent layers keeps the state of one view: "
            f"{'leave it out' if options.adaptive else 'give one letter'}"
        )
    return parse_drafting(spec, config, options.weights if options.drafting else (), options.pool)


def _require_kind(options: Options, name: str, kind: str, spec: str) -> None:
    if spec != kind:
        raise UsageError(
            f"`drafting={spec}`: the draft {name} is a head of the kind {kind}: use "
            f"{kind}, {kind}+lookup, lookup or none"
        )
    if options.adaptive:
        raise UsageError(
            f"`adaptive` weighs views of a draft model, and {name} is a head: leave it out"
        )


def fit_drafting(
    models: Models, options: Options, drafting: Drafting, chunks: Sequence[Chunk]
) -> tuple[Drafting, list[str]]:
    """`drafting` without views that exceed the draft's positions, and a note for each change."""
    draft = models.draft
    if draft is None or drafting in WITHOUT_MODEL.values():
        return drafting, []
    length, config = partial(draft.views(models.caption).length, chunks), draft.model.config
    answer = min(options.max_new_tokens, TYPICAL_ANSWER)
    room = config.text.max_position_embeddings - answer
    rule = options.overflow
    if rule == "auto":
        rule = "pool" if len(list(pictures(chunks))) <= IMAGES_FOR_M else "drop"
    views, notes = fit(drafting, room, length, config, rule)
    if drafting.with_lookup:
        views = replace(views, with_lookup=True) if views.branches else LOOKUP
    return views, notes


def open_drafter(
    models: Models, options: Options, drafting: Drafting, target: Target
) -> OpenDrafter:
    """Open a drafter beside `target`; `drafting` must have a drafter."""
    if drafting.with_lookup:
        inner = open_drafter(models, options, replace(drafting, with_lookup=False), target)
        lookup = open_drafter(models, options, LOOKUP, target).drafter
        return replace(inner, drafting=drafting, drafter=SurerDrafter(lookup, inner.drafter))
    tree, views = models.tree_of(options, drafting), models.target.views(models.caption)
    if drafting == LOOKUP:
        return OpenDrafter(drafting, views, LookupDrafter(options.sampling, tree, models.texts))
    if models.head:
        drafter = models.head.head.open_drafter(target, options.sampling, tree)
        if isinstance(head_drafter := drafter, HeadDrafter):
            return OpenDrafter(drafting, views, head_drafter, room=lambda: head_drafter.room)
        return OpenDrafter(drafting, views, drafter)
    if models.draft is None:
        raise ValueError(f"nothing loaded drafts {drafting.spec}")
    draft, count = models.draft.model, len(drafting.branches)
    adaptive = options.adaptive and count > 1
    vocabulary = models.target.model.config.text.vocab_size
    branches = draft.open_branches(
        count, vocabulary, options.sampling, tree, probabilities=adaptive
    )
    positions = None if options.overflow == "run" else draft.config.text.max_position_embeddings
    drafter = ViewDrafter(branches, drafting.weights, positions, adaptive=adaptive)
    views = models.draft.views(models.caption)
    return OpenDrafter(
        drafting, views, drafter, lambda: tuple(drafter.weights), lambda: drafter.room
    )
