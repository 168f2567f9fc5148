"""The options that commands share, and what a shell completes of them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from mmspec.chat.options import Gamma
from mmspec.checkpoints.cards import load_cards

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*options: Decorator) -> Decorator:
    """Decorator that adds several options to a command, listed in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def is_typed(name: str) -> bool:
    """True if an option of the current command is on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def parse_weights(value: Any) -> tuple[float, ...]:
    """Parse `2,1,1`; raises BadParameter naming the invalid part."""
    try:
        return tuple(float(number) for number in value.split(",")) if value else ()
    except ValueError as error:
        reason = f"{value!r}: give numbers separated by commas, such as 2,1,1"
        raise click.BadParameter(reason) from error


def parse_gamma(value: Any) -> Gamma:
    """Parse `5` or `auto`; raises BadParameter for anything else."""
    try:
        return "auto" if value == "auto" else int(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: give a number such as 5, or auto") from error


def _completing(use: str, *words: str) -> Callable[..., list[CompletionItem]]:
    """What a shell completes: words and cards of a use, or directories if none begins so."""

    def complete(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem]:
        names = [*words, *(name for name, card in load_cards().items() if use in card.uses)]
        matches = [CompletionItem(name) for name in names if name.startswith(start)]
        return matches or [CompletionItem(start, type="dir")]

    return complete


complete_draft = _completing("draft", "auto", "none")
LONGEST = "Tokens of an answer at most."
"""What --max-new-tokens means in every command."""

HELP = {
    "model": "Target; auto: the best for images that is on this machine, else mini.",
    "draft": "Draft model, or a head on the target's states. auto: the one that the card names.",
    "draft-quantize": "As --quantize, for the draft model alone. Default: as --quantize.",
    "captioner": "Writes captions. auto: a draft that sees images, else the target.",
    "captions": 'Captions as JSON lines, {"image": path or name, "caption": text}. A --captioner '
    "that is named writes those that it lacks.",
    "draft-text": "Text that answers may quote, such as a page's text layer, for --drafting "
    "lookup. May be repeated.",
    "backend": "auto: mlx on a Mac, else torch.",
    "device": "Where models compute, such as cpu or cuda:1. auto: the fastest that is here; "
    "`mmspec doctor` lists them.",
    "dtype": "auto: float32 on a CPU, the checkpoint's own elsewhere.",
    "quantize": "Keep every model's matrices in 8 bits, or in 4 bits by groups of 64 inputs or as "
    "many as named. PyTorch only; for MLX see `models quantize`.",
    "threads": "CPU threads. Default: those of OMP_NUM_THREADS or its like, else all cores but "
    "one.",
    "max-image-tokens": "Tokens of an image at most, and a quarter of a clip's; larger ones are "
    "made smaller, with a note. Qwen only. Default: 1280, about 1.3 megapixels.",
    "drafting": "Views of the prompt to draft from: M images, T text only, C captions, P pooled "
    "images, or several, such as MTC; a head's own kind, such as msd; lookup finds the last words "
    "in earlier text and needs no draft; msd+lookup takes the surer; auto is a head's kind, "
    "or M with one or two images, else T, with lookup; without a draft lookup alone.",
    "weights": "One per letter, such as 2,1,1. Default: equal.",
    "adaptive": "Before every round fit the weights to the target's answer so far.",
    "pool": "Positions of a pooled image: a square number that the grid divides into. Default: a "
    "quarter of the grid.",
    "overflow": "What to do with a view longer than the draft's positions: pool its images, drop "
    "the view, or run it as it is; auto pools up to two images and drops the view with more.",
    "gamma": "Tokens drafted a round, 1 to 64. auto: the fastest by measured costs and "
    "acceptance, 0 included.",
    "tree": "Draft a tree, gamma deep: dynamic grows where the draft is sure (EAGLE-2); numbers, "
    "such as 3,2,1, give each level's children; none drafts chains. auto: with --gamma auto trees "
    "where calibrated costs favour them, else chains.",
    "tree-width": "Nodes expanded on a level of a dynamic tree, and children of a node. Default: "
    "10.",
    "tree-nodes": "Drafted nodes at most. Default: 60.",
    "exact": "The same bits whatever drafts. auto: on where `calibrate` found that it holds and a "
    "plain token costs at most 10 % more.",
    "temperature": "0 takes the likeliest token.",
    "top-p": "Probability of the likeliest tokens, which alone are sampled.",
    "top-k": "Number of likeliest tokens, which alone are sampled; 0: all.",
    "seed": "Of sampling.",
    "max-new-tokens": LONGEST,
    "repeat-limit": "Stop an answer when this many tokens repeat one part; 0: never.",
    "fps": "Frames a second that are taken of a clip, evenly; 4 at least.",
    "max-frames": "Frames of a clip at most, up to 768. Default: 64; of these, models that see "
    "frames as images are shown as many as fit into half of their context.",
    "system": "System text, which says how to answer. Default: none.",
    "thinking": "Whether the model thinks before it answers. Default: as its chat template has it.",
    "details": "Show all figures of an answer, not the short line.",
    "plain": "A plain screen: no colour, boxes, previews, progress or Markdown. Also where "
    "NO_COLOR is set or output is piped.",
    "accepted": "Mark the drafted tokens that were kept; answers keep their Markdown signs.",
}
"""The help of each option, by its name."""


def option(name: str, default: Any = None, metavar: str | None = None, **extras: Any) -> Decorator:
    """An option with its help; without a type it takes values like its default."""
    extras = {"show_default": None if default != "" else False, **extras}
    return click.option(f"--{name}", help=HELP[name], default=default, metavar=metavar, **extras)


def flag(name: str, argument: str | None = None) -> Decorator:
    """An option without a value; argument: the command's, if it has another name."""
    return click.option(f"--{name}", argument or name, is_flag=True, help=HELP[name])


FILES = "NAME|REPO|DIR"
BITS = "none|int8|int4|int4-32|int4-128"
MODEL = option("model", "auto", f"{FILES}|auto", shell_complete=_completing("target", "auto"))
DRAFT = option("draft", "auto", f"{FILES}|none|auto", shell_complete=complete_draft)
CAPTIONER = together(option("captioner", "auto", FILES), option("captions", "", "FILE"))
DRAFT_TEXT = option("draft-text", None, "FILE", multiple=True)
BACKEND = option("backend", "auto", "mlx|torch|auto")
DEVICE = option("device", "auto", "NAME|auto")
PLACE = together(
    BACKEND,
    DEVICE,
    option("dtype", "auto", "auto|float32|bfloat16|float16"),
    option("quantize", "none", BITS),
    option("threads", None, "N", type=int),
    option("max-image-tokens", None, "N", type=int),
)
"""Where, in which numbers and on how large images models compute."""
LOADING = together(MODEL, DRAFT, option("draft-quantize", None, BITS), PLACE)
"""The options for loading models; their names are keywords of `mmspec.chat.engine.load`."""


def gamma_option(default: int | str) -> Decorator:
    """The option `--gamma`: a number of tokens or `auto`."""
    return option("gamma", default, "N|auto", type=parse_gamma)


EXACT = option("exact", "auto", "auto|on|off")
DECODING = together(
    option("drafting", "auto", "LETTERS|KIND|[...+]lookup|none|auto"),
    option("weights", "", "N,N,...", type=parse_weights),
    flag("adaptive"),
    option("pool", None, "N", type=int),
    option("overflow", "auto", "auto|pool|drop|run"),
    gamma_option("auto"),
    option("tree", "auto", "auto|none|dynamic|N,N,..."),
    option("tree-width", None, "N", type=int),
    option("tree-nodes", None, "N", type=int),
    option("temperature", 0.0),
    option("top-p", 1.0),
    option("top-k", 0),
    option("seed", 0),
    option("max-new-tokens", 512),
    EXACT,
    option("repeat-limit", 200),
)
"""The options that `mmspec_terminal.setup.decoding_options` reads."""
MODELS = together(LOADING, CAPTIONER, DRAFT_TEXT, DECODING)
"""The options of models and of how they decode."""
THINKING = option(
    "thinking",
    type=click.Choice(("on", "off")),
    callback=lambda _, __, word: None if word is None else word == "on",
)
SYSTEM = together(option("system", None, "TEXT"), THINKING)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
DETAILS, PLAIN = flag("details"), flag("plain")
ACCEPTED = flag("accepted", "marks_accepted")
FRAMES = together(option("fps", 2.0), option("max-frames", None, "N", type=int))


def _writable(_: click.Context, __: click.Parameter, out: Path | None) -> Path | None:
    """The path of a file to write, checked to be writable before anything is measured."""
    if out and (out.is_dir() or not os.access(out.parent, os.W_OK)):
        raise click.BadParameter(f"{out} cannot be written: name a file in a folder that is there")
    return out


OUT = click.option(
    "--out",
    "report_file",
    type=Path,
    metavar="FILE",
    callback=_writable,
    help="Write the JSON report there too.",
)
