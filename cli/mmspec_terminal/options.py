"""The options that commands share."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mmspec_terminal.completions import complete_draft, complete_model

if TYPE_CHECKING:
    from mmspec.chat.options import Gamma

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*options: Decorator) -> Decorator:
    """Decorator that adds several options to a command, listed in this order."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


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


LONGEST = "Tokens of an answer at most."
"""What --max-new-tokens means in every command."""

MODEL = click.option(
    "--model",
    shell_complete=complete_model,
    default="auto",
    metavar="NAME|REPO|DIR|auto",
    help="Target; auto: the best for images that is on this machine, else mini.",
)
DRAFT = click.option(
    "--draft",
    shell_complete=complete_draft,
    default="auto",
    metavar="NAME|REPO|DIR|none|auto",
    help="Draft model, or a head on the target's states. auto: the one that the card names.",
)
DRAFT_QUANTIZE = click.option(
    "--draft-quantize",
    metavar="none|int8|int4|int4-32|int4-128",
    help="As --quantize, for the draft model alone. Default: as --quantize.",
)
CAPTIONER = together(
    click.option(
        "--captioner",
        default="auto",
        metavar="NAME|REPO|DIR",
        help="Writes captions. auto: a draft that sees images, else the target.",
    ),
    click.option(
        "--captions",
        default="",
        show_default=False,
        metavar="FILE",
        help='Captions as JSON lines, {"image": path or name, "caption": text}. A --captioner that '
        "is named writes those that it lacks.",
    ),
)
DRAFT_TEXT = click.option(
    "--draft-text",
    multiple=True,
    metavar="FILE",
    help="Text that answers may quote, such as a page's text layer, for --drafting lookup. May be "
    "repeated.",
)
BACKEND = click.option(
    "--backend", default="auto", metavar="mlx|torch|auto", help="auto: mlx on a Mac, else torch."
)
DEVICE = click.option(
    "--device",
    default="auto",
    metavar="NAME|auto",
    help="Where models compute, such as cpu or cuda:1. auto: the fastest that is here; `mmspec "
    "doctor` lists them.",
)
DTYPE = click.option(
    "--dtype",
    default="auto",
    metavar="auto|float32|bfloat16|float16",
    help="auto: float32 on a CPU, the checkpoint's own elsewhere.",
)
QUANTIZE = click.option(
    "--quantize",
    default="none",
    metavar="none|int8|int4|int4-32|int4-128",
    help="Keep every model's matrices in 8 bits, or in 4 bits by groups of 64 inputs or as many as "
    "named. PyTorch only; for MLX see `models quantize`.",
)
THREADS = click.option(
    "--threads",
    type=int,
    metavar="N",
    help="CPU threads. Default: those of OMP_NUM_THREADS or its like, else all cores but one.",
)
IMAGE_TOKENS = click.option(
    "--max-image-tokens",
    type=int,
    metavar="N",
    help="Tokens of an image at most, and a quarter of a clip's; larger ones are made smaller, "
    "with a note. Qwen only. Default: 1280, about 1.3 megapixels.",
)
PLACE = together(BACKEND, DEVICE, DTYPE, QUANTIZE, THREADS, IMAGE_TOKENS)
"""Where, in which numbers and on how large images models compute."""
DRAFTS = together(DRAFT, DRAFT_QUANTIZE, PLACE)
LOADING = together(MODEL, DRAFTS)
"""The options for loading models; their names are keywords of `mmspec.chat.engine.load`."""
MODELS = (
    *("model", "draft", "draft_quantize", "captioner", "captions", "draft_text"),
    *("backend", "device", "dtype", "quantize", "threads", "max_image_tokens"),
)
"""The names of the options for loading models and a captioner."""


def gamma_option(default: int | str) -> Decorator:
    """The option `--gamma`: a number of tokens or `auto`."""
    return click.option(
        "--gamma",
        type=parse_gamma,
        metavar="N|auto",
        default=default,
        help="Tokens drafted a round, 1 to 64. auto: the fastest by measured costs and acceptance, "
        "0 included.",
    )


DRAFTING = (
    click.option(
        "--drafting",
        metavar="LETTERS|KIND|[...+]lookup|none",
        help="Views of the prompt to draft from: M images, T text only, C captions, P pooled "
        "images, or several, such as MTC; a head's own kind, such as msd; lookup finds the last "
        "words in earlier text and needs no draft; msd+lookup takes the surer. Default: a head's "
        "kind; M with one or two images, else T; lookup if --draft auto finds none.",
    ),
    click.option(
        "--weights",
        type=parse_weights,
        metavar="N,N,...",
        default="",
        show_default=False,
        help="One per letter, such as 2,1,1. Default: equal.",
    ),
    click.option(
        "--adaptive",
        is_flag=True,
        help="Before every round fit the weights to the target's answer so far.",
    ),
    click.option(
        "--pool",
        type=int,
        metavar="N",
        help="Positions of a pooled image: a square number that the grid divides into. "
        "Default: a quarter of the grid.",
    ),
    click.option(
        "--overflow",
        default="auto",
        metavar="auto|pool|drop|run",
        help="What to do with a view longer than the draft's positions: pool its images, drop "
        "the view, or run it as it is; auto pools up to two images and drops the view with more.",
    ),
    gamma_option("auto"),
    click.option(
        "--tree",
        default="auto",
        metavar="auto|none|dynamic|N,N,...",
        help="Draft a tree, gamma deep: dynamic grows where the draft is sure (EAGLE-2); numbers, "
        "such as 3,2,1, give each level's children; none drafts chains. auto: with --gamma auto "
        "trees where calibrated costs favour them, else chains.",
    ),
    click.option(
        "--tree-width",
        type=int,
        metavar="N",
        help="Nodes expanded on a level of a dynamic tree, and children of a node. Default: 10.",
    ),
    click.option("--tree-nodes", type=int, metavar="N", help="Drafted nodes at most. Default: 60."),
)
EXACT = click.option(
    "--exact",
    default="auto",
    metavar="auto|on|off",
    help="The same bits whatever drafts. auto: on where `calibrate` found that it holds and a "
    "plain token costs at most 10 % more.",
)
SAMPLING = (
    click.option("--temperature", type=float, default=0.0, help="0 takes the likeliest token."),
    click.option(
        "--top-p",
        type=float,
        default=1.0,
        help="Probability of the likeliest tokens, which alone are sampled.",
    ),
    click.option(
        "--top-k",
        type=int,
        default=0,
        help="Number of likeliest tokens, which alone are sampled; 0: all.",
    ),
    click.option("--seed", type=int, default=0, help="Of sampling."),
    click.option("--max-new-tokens", type=int, default=512, help=LONGEST),
)
SYSTEM = together(
    click.option(
        "--system", metavar="TEXT", help="System text, which says how to answer. Default: none."
    ),
    click.option(
        "--thinking",
        type=click.Choice(("on", "off")),
        callback=lambda _, __, word: None if word is None else word == "on",
        help="Whether the model thinks before it answers. Default: as its chat template has it.",
    ),
)
REPEAT_LIMIT = click.option(
    "--repeat-limit",
    type=int,
    default=200,
    help="Stop an answer of which so many tokens repeat one part; 0: never.",
)
DETAILS = click.option(
    "--details", is_flag=True, help="Show all figures of an answer, not the short line."
)
DECODING = together(*DRAFTING, *SAMPLING, EXACT, REPEAT_LIMIT)
"""The options that `mmspec_terminal.setup.decoding_options` reads."""
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
PLAIN = click.option(
    "--plain",
    is_flag=True,
    help="No colour, no boxes. Also where NO_COLOR is set or output is piped.",
)
ACCEPTED = click.option("--accepted", is_flag=True, help="Mark the drafted tokens that were kept.")
FRAMES = together(
    click.option(
        "--fps",
        type=float,
        default=2.0,
        help="Frames a second that are taken of a clip, evenly; 4 at least.",
    ),
    click.option(
        "--max-frames",
        type=int,
        metavar="N",
        help="Frames of a clip at most, up to 768. Default: 64; of these, models that see frames "
        "as images are shown as many as fit into half of their context.",
    ),
)


def _writable(_: click.Context, __: click.Parameter, out: Path | None) -> Path | None:
    """The path of a file to write, checked to be writable before anything is measured."""
    if out and (out.is_dir() or not os.access(out.parent, os.W_OK)):
        raise click.BadParameter(f"{out} cannot be written: name a file in a folder that is there")
    return out


OUT = click.option(
    "--out", type=Path, metavar="FILE", callback=_writable, help="Write the JSON report there too."
)
