"""Reads the shared options: which models, how to decode, which frames of clips, and the screen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import wraps
from inspect import signature
from typing import Any, Literal

from mmspec.chat.engine import Engine, load
from mmspec.chat.options import Options
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree, parse_tree
from mmspec.ground.errors import UsageError
from mmspec.prompt.clips import EVENLY, FrameSampling
from mmspec_terminal import options
from mmspec_terminal.options import Decorator, together
from mmspec_terminal.render import Screen


@dataclass(frozen=True, slots=True)
class Setup:
    """The shared options: output, models and decoding."""

    screen: Screen
    models: Mapping[str, Any]
    """Keywords of `mmspec.chat.engine.load`."""
    options: Options
    details: bool = False
    sampling: FrameSampling = EVENLY
    """Which frames of clips are taken."""

    def load(self, *, ready: bool = False) -> Engine:
        """Load target, draft and captioner, as `mmspec.chat.engine.load`; raises MmspecError."""
        self.screen.progress("loading")
        options, progress = self.options, self.screen.progress
        return load(**self.models, options=options, progress=progress, ready=ready)

    def load_other(self, model: str, options: Options) -> Engine:
        """Load another target with the draft that its card names; raises MmspecError."""
        models = {**self.models, "model": model, "draft": "auto"}
        return replace(self, models=models, options=options).load(ready=True)


def with_screen(*output: Decorator) -> Decorator:
    """Decorator that adds --plain and other options of output, and passes a `Screen` first."""
    names = ("plain", "as_json", "marks_accepted", "report_file")

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(**values: Any) -> Any:
            screen = Screen(**{name: values.pop(name) for name in names if name in values})
            return command(screen, **values)

        return together(*output, options.PLAIN)(run)

    return decorate


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator that adds all shared options, passed as the first argument, a `Setup`."""

    @wraps(command)
    def with_setup(screen: Screen, fps: float, max_frames: int, **values: Any) -> Any:
        details, sampling = values.pop("details"), FrameSampling(fps, max_frames)
        setup = replace(read_setup(screen, values), details=details, sampling=sampling)
        return command(setup, **values)

    output = with_screen(options.JSON, options.ACCEPTED)
    return together(options.MODELS, output, options.DETAILS, options.FRAMES)(with_setup)


def read_setup(screen: Screen, values: dict[str, Any]) -> Setup:
    """The models and the decoding that `values` name, which loses these options."""
    models = {name: values.pop(name) for name in signature(load).parameters if name in values}
    return Setup(screen, models, decoding_options(values))


def decoding_options(values: dict[str, Any]) -> Options:
    """Decoding options from `values`, which loses them; raises UsageError for one out of range."""
    sampling = Sampling(values.pop("temperature"), values.pop("top_k"), values.pop("top_p"))
    tree = _tree(values)
    names = [field.name for field in fields(Options) if field.name in values]
    choices = {name: values.pop(name) for name in names}
    decoding = Options(sampling=sampling, tree=tree, **choices)
    for name in ("adaptive", "tree", "weights", "pool") if decoding.drafting == "none" else ():
        if getattr(decoding, name) not in (None, False, (), "auto"):
            raise UsageError(f"--{name} needs a --drafting other than none, which drafts nothing")
    return decoding


def _tree(values: dict[str, Any]) -> Tree | Literal["auto"] | None:
    """Remove the tree options from `values`; raises UsageError for one without its `--tree`."""
    spec = values.pop("tree")
    settings = {name: values.pop(f"tree_{name}") for name in ("width", "nodes")}
    settings = {name: value for name, value in settings.items() if value is not None}
    if spec in ("auto", "none") and settings:
        raise UsageError(f"--tree-{next(iter(settings))} needs --tree")
    if spec not in ("none", "dynamic") and "width" in settings:
        raise UsageError("--tree-width is of a dynamic tree: give --tree dynamic")
    return "auto" if spec == "auto" else parse_tree(spec, **settings)
