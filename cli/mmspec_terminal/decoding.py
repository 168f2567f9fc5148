"""Parses the options that choose how to decode."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from mmspec.ground.errors import UsageError

if TYPE_CHECKING:
    from mmspec.chat.options import Gamma, Options
    from mmspec.decoding.adaptive_weights import Adaptation
    from mmspec.decoding.tree import Tree


def parse_weights(value: Any) -> tuple[float, ...]:
    """Parse `2,1,1`; raises BadParameter naming the invalid part."""
    try:
        return tuple(float(number) for number in value.split(",")) if value else ()
    except ValueError as error:
        reason = f"{value!r}: give numbers separated by commas, such as 2,1,1"
        raise click.BadParameter(reason) from error


def parse_gamma(value: Any) -> "Gamma":
    """Parse `5` or `auto`; raises BadParameter for anything else."""
    try:
        return "auto" if value == "auto" else int(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: give a number such as 5, or auto") from error


def decoding_options(values: dict[str, Any]) -> "Options":
    """Decoding options from `values`, which loses them; raises UsageError for one out of range."""
    from mmspec.chat.options import Options
    from mmspec.decoding.sampling import Sampling

    sampling = Sampling(values.pop("temperature"), values.pop("top_k"), values.pop("top_p"))
    adaptive, tree = _adaptation(values), _tree(values)
    names = ("drafting", "weights", "pool", "overflow", "gamma", "seed", "exact")
    fields = {name: values.pop(name) for name in (*names, "max_new_tokens")}
    limit = values.pop("repeat_limit", 0)  # only commands that answer people have it
    options = Options(sampling=sampling, adaptive=adaptive, tree=tree, repeat_limit=limit, **fields)
    for name in ("adaptive", "tree", "weights", "pool") if options.drafting == "none" else ():
        if getattr(options, name) not in (None, (), "auto"):
            raise UsageError(f"--{name} needs a --drafting other than none, which drafts nothing")
    return options


def _tree(values: dict[str, Any]) -> "Tree | Literal['auto'] | None":
    """Remove the tree options from `values`; raises UsageError for one without its `--tree`."""
    from mmspec.decoding.tree import parse_tree

    spec, settings = values.pop("tree"), _settings(values, "tree", ("width", "nodes"))
    if spec in ("auto", "none") and settings:
        raise UsageError(f"--tree-{next(iter(settings))} needs --tree")
    if spec not in ("none", "dynamic") and "width" in settings:
        raise UsageError("--tree-width is of a dynamic tree: give --tree dynamic")
    return "auto" if spec == "auto" else parse_tree(spec, **settings)


def _adaptation(values: dict[str, Any]) -> "Adaptation | None":
    """Remove the adaptive options from `values`; raises UsageError for one without `--adaptive`."""
    from mmspec.decoding.adaptive_weights import Adaptation

    settings = _settings(values, "adaptive", ("rule", "window", "carry"))
    if values.pop("adaptive"):
        return Adaptation(**settings)
    if settings:
        raise UsageError(f"--adaptive-{next(iter(settings))} needs --adaptive")
    return None


def _settings(values: dict[str, Any], prefix: str, names: Sequence[str]) -> dict[str, Any]:
    """Remove the options `prefix_NAME` from `values` for each name; returns those that are set."""
    settings = {name: values.pop(f"{prefix}_{name}") for name in names}
    return {name: value for name, value in settings.items() if value is not None}
