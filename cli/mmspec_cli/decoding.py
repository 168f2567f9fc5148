"""What the words of options stand for that say how to decode."""

from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from mmspec.adaptive import Adaptation
    from mmspec.options import Options
    from mmspec.tree import Tree


class Weights(click.ParamType[tuple[float, ...]]):
    """Numbers separated by commas."""

    name = "NUMBERS"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Read `2,1,1`; fails naming what was given."""
        if not isinstance(value, str):
            return tuple(value)
        try:
            return tuple(float(number) for number in value.split(","))
        except ValueError:
            self.fail(f"{value!r}: give numbers separated by commas, such as 2,1,1", param, ctx)


class Gamma(click.ParamType["int | Literal['auto']"]):
    """A number or `auto`."""

    name = "N|auto"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> "int | Literal['auto']":
        """Read `5` or `auto`; fails naming what was given."""
        if value == "auto":
            return "auto"
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r}: give a number such as 5, or auto", param, ctx)


def decoding_options(given: dict[str, Any]) -> "Options":
    """Take the fields of `Options` out of `given`; raises UsageError for one out of range."""
    from mmspec.options import Options
    from mmspec.sampling import Sampling

    sampling = Sampling(given.pop("temperature"), given.pop("top_k"), given.pop("top_p"))
    adaptive, tree = _adaptation(given), _tree(given)
    names = ("drafting", "weights", "pool", "overflow", "gamma", "proposal", "seed")
    taken = {name: given.pop(name) for name in (*names, "max_new_tokens", "skip_vision")}
    options = Options(sampling=sampling, adaptive=adaptive, tree=tree, **taken)
    if options.drafting == "none":
        _refuse_moot(options)
    return options


def _refuse_moot(options: "Options") -> None:
    """Raise UsageError for an option that says how to draft where nothing is drafted."""
    from mmspec.errors import UsageError

    given = {
        "skip-vision": options.skip_vision is not None,
        "adaptive": options.adaptive is not None,
        "tree": options.tree is not None,
        "weights": bool(options.weights),
        "pool": options.pool is not None,
    }
    for name, asked in given.items():
        if asked:
            raise UsageError(f"--{name} needs a --drafting other than none, which drafts nothing")


def _tree(given: dict[str, Any]) -> "Tree | None":
    """Take the tree's options out of `given`; raises UsageError for one without its `--tree`."""
    from mmspec.errors import UsageError
    from mmspec.tree import parse_tree

    word = given.pop("tree")
    taken = {name: given.pop(f"tree_{name}") for name in ("width", "nodes")}
    chosen = {name: value for name, value in taken.items() if value is not None}
    if word == "none" and chosen:
        raise UsageError(f"--tree-{next(iter(chosen))} needs --tree")
    if word not in ("none", "dynamic") and "width" in chosen:
        raise UsageError("--tree-width is of a dynamic tree: give --tree dynamic")
    return parse_tree(word, **chosen)


def _adaptation(given: dict[str, Any]) -> "Adaptation | None":
    """Take the adaptive options out of `given`; raises UsageError for one without `--adaptive`."""
    from mmspec.adaptive import Adaptation
    from mmspec.errors import UsageError

    taken = {name: given.pop(f"adaptive_{name}") for name in ("rule", "window", "carry")}
    chosen = {name: value for name, value in taken.items() if value is not None}
    if given.pop("adaptive"):
        return Adaptation(**chosen)
    if chosen:
        raise UsageError(f"--adaptive-{next(iter(chosen))} needs --adaptive")
    return None
