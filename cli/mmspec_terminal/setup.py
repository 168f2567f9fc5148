"""Reads the shared options: which models, how to decode, which frames of clips."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

from mmspec.ground.errors import UsageError
from mmspec.prompt.clips import EVENLY, FrameSampling
from mmspec_terminal.options import (
    ACCEPTED,
    CAPTIONER,
    DECODING,
    DETAILS,
    DRAFT_TEXT,
    FRAMES,
    JSON,
    LOADING,
    MODELS,
    PLAIN,
    together,
)

if TYPE_CHECKING:
    from mmspec.chat.engine import Engine
    from mmspec.chat.options import Options
    from mmspec.decoding.tree import Tree


@dataclass(frozen=True, slots=True)
class Setup:
    """The shared options: models, decoding and output."""

    models: Mapping[str, Any]
    """Keywords of `mmspec.chat.engine.load`."""
    options: "Options"
    as_json: bool = False
    plain: bool = False
    accepted: bool = False
    details: bool = False
    sampling: FrameSampling = EVENLY
    """Which frames of clips are taken."""

    def load(self, progress: Callable[[str], object], *, ready: bool = False) -> "Engine":
        """Load target, draft and captioner; raises MmspecError, before that for invalid options.

        ready: time a few rounds, so that the first answer drafts from its first round.
        """
        progress("loading")
        from mmspec.chat.engine import load

        return load(**self.models, options=self.options, ready=ready, progress=progress)

    def load_other(
        self, model: str, options: "Options", progress: Callable[[str], object]
    ) -> "Engine":
        """Load another target with the draft that its card names; raises MmspecError."""
        models = {**self.models, "model": model, "draft": "auto"}
        return replace(self, models=models, options=options).load(progress, ready=True)


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator that adds all shared options, passed as the first argument, a `Setup`."""

    @wraps(command)
    def with_setup(**values: Any) -> Any:
        models = {name: values.pop(name) for name in MODELS}
        output = {name: values.pop(name) for name in ("as_json", "plain", "accepted", "details")}
        sampling = FrameSampling(values.pop("fps"), values.pop("max_frames"))
        setup = Setup(models, decoding_options(values), sampling=sampling, **output)
        return command(setup, **values)

    shared = together(
        LOADING, CAPTIONER, DRAFT_TEXT, DECODING, JSON, PLAIN, ACCEPTED, DETAILS, FRAMES
    )
    return shared(with_setup)


def decoding_options(values: dict[str, Any]) -> "Options":
    """Decoding options from `values`, which loses them; raises UsageError for one out of range."""
    from mmspec.chat.options import Options
    from mmspec.decoding.sampling import Sampling

    sampling = Sampling(values.pop("temperature"), values.pop("top_k"), values.pop("top_p"))
    tree = _tree(values)
    names = ("drafting", "weights", "adaptive", "pool", "overflow", "gamma", "seed", "exact")
    fields = {name: values.pop(name) for name in (*names, "max_new_tokens")}
    limit = values.pop("repeat_limit", 0)  # only commands that answer people have it
    options = Options(sampling=sampling, tree=tree, repeat_limit=limit, **fields)
    for name in ("adaptive", "tree", "weights", "pool") if options.drafting == "none" else ():
        if getattr(options, name) not in (None, False, (), "auto"):
            raise UsageError(f"--{name} needs a --drafting other than none, which drafts nothing")
    return options


def _tree(values: dict[str, Any]) -> "Tree | Literal['auto'] | None":
    """Remove the tree options from `values`; raises UsageError for one without its `--tree`."""
    from mmspec.decoding.tree import parse_tree

    spec = values.pop("tree")
    settings = {name: values.pop(f"tree_{name}") for name in ("width", "nodes")}
    settings = {name: value for name, value in settings.items() if value is not None}
    if spec in ("auto", "none") and settings:
        raise UsageError(f"--tree-{next(iter(settings))} needs --tree")
    if spec not in ("none", "dynamic") and "width" in settings:
        raise UsageError("--tree-width is of a dynamic tree: give --tree dynamic")
    return "auto" if spec == "auto" else parse_tree(spec, **settings)
