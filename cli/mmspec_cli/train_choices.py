"""What the options of `mmspec train` stand for, and which cannot go together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from mmspec_torch.train.distill.main import Lessons, Place
    from mmspec_torch.train.distill.method import Method
    from mmspec_torch.train.drafts.main import Way
    from mmspec_torch.train.loop import Budget

GIGABYTE = 10**9
HEADS = ("eagle", "msd", "medusa", "hydra", "flash")
CONCERNED: dict[str, tuple[str, ...]] = {
    "slots": ("medusa", "hydra", "flash"),
    "queries": ("flash",),
    "vision": ("medusa", "hydra"),
    "ffn": ("eagle", "msd", "flash"),
    "pool": ("draft",),
    **dict.fromkeys(("token_weight", "feature_weight", "decay", "rollout", "noise"), HEADS),
}
"""The kinds that an option has an effect on."""
SHAPE = ("layers", "width", "heads", "ffn", "positions")


def refuse_idle(kind: str) -> None:
    """Raise UsageError for an option of the command under way that has no effect on a kind."""
    for name, kinds in CONCERNED.items():
        if kind not in kinds and _is_given(name):
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} has no effect on --kind {kind}: {', '.join(kinds)}")


def refuse_unshaped(names: Sequence[str], source: str | None) -> None:
    """Raise UsageError for an option of `train draft` that has no effect on the drafts asked for.

    source: what --from names, which has a shape of its own.
    """
    for name in SHAPE if source else ():
        if _is_given(name):
            raise click.UsageError(f"--{name} has no effect with --from: {source} has its own")
    if _is_given("pool") and names and not {"llava", "language"}.intersection(names):
        raise click.UsageError("--pool has no effect on drafts that see no image: llava does")


def refuse_contradictions() -> None:
    """Raise UsageError for options of the command under way that cannot go together."""
    given = click.get_current_context().params
    if _is_given("steps") and _is_given("minutes"):
        raise click.UsageError("give --steps or --minutes, not both: either ends the training")
    if given["images"] and not given["data"]:
        raise click.UsageError("--images is where the images of --data are: give --data too")
    if given["answers"] == "dataset" and _is_given("temperature"):
        raise click.UsageError("--temperature has no effect on --answers dataset: nobody draws")


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


@dataclass(frozen=True)
class Choices:
    """Options as given, turned into what training takes."""

    given: dict[str, Any]

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        refuse_contradictions()

    def lessons(self) -> "Lessons":
        """Where conversations come from."""
        from mmspec_torch.train.distill.main import Lessons
        from mmspec_torch.train.distill.prepare import Want

        given = self.given
        want = Want(
            given["samples"],
            given["answer_minutes"],
            given["answers"],
            given["temperature"],
            given["answer_tokens"],
            given["answer_rows"],
            int(given["cache_gb"] * GIGABYTE),
            given["seed"],
        )
        directory = given["answers_dir"] or given["out"] / "answers"
        source = given["data"], given["images"]
        return Lessons(given["target"], directory, want, *source, given["held_out"], given["batch"])

    def method(self, kind: str) -> "Method":
        """How a head of a kind is trained, or a draft."""
        from mmspec_torch.train.distill.loss import Loss
        from mmspec_torch.train.distill.method import Method

        given = self.given
        schedule = given["schedule"] or ("msd" if kind == "msd" else "mixed")
        named = ("rate", "on_policy", "gamma", "patience", "every", "seed")
        rest = {name: given[name] for name in named}
        if kind == "draft":
            return Method(Loss(given["loss"]), schedule=schedule, **rest)
        weights = given["token_weight"], given["feature_weight"], given["decay"]
        loss, depth, noise = Loss(given["loss"], *weights), given["rollout"], given["noise"]
        return Method(loss, depth, noise, schedule=schedule, **rest)

    def way(self) -> "Way":
        """How a draft is trained."""
        from mmspec_torch.train.drafts.main import Way

        return Way(self.method("draft"), self.budget(), self.given["pool"])

    def budget(self) -> "Budget":
        """How long."""
        from mmspec_torch.train.loop import Budget

        minutes = None if self.given["steps"] is not None else self.given["minutes"] or 20.0
        return Budget(self.given["steps"], minutes)

    def place(self) -> "Place":
        """Where."""
        from mmspec_torch.train.distill.main import Place

        given = self.given
        named = ("device", "dtype", "threads", "workers")
        rest = {name: given[name] for name in named}
        return Place(**rest, board=given["tensorboard"], team=given["accelerate"])
