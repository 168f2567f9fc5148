"""The options that commands share."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mmspec_cli.decoding import Gamma, Weights, decoding_options

if TYPE_CHECKING:
    from mmspec.engine import Engine
    from mmspec.options import Options

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*options: Decorator) -> Decorator:
    """Give a command several options, to be listed in this order."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


MODEL = click.option(
    "--model",
    default="auto",
    metavar="NAME|REPO|DIR|auto",
    help="Target. auto: LLaVA-1.5-7B where it is on this machine, else mini.",
)
DRAFT = click.option(
    "--draft",
    default="auto",
    metavar="NAME|REPO|DIR|none|auto",
    help="Draft model, or a head on the target's hidden states. auto: the one that the card names.",
)
CAPTIONER = click.option(
    "--captioner",
    default="auto",
    metavar="NAME|REPO|DIR",
    help="Writes captions for drafting C. auto: the draft.",
)
BACKEND = click.option(
    "--backend", default="auto", metavar="mlx|torch|auto", help="auto: mlx on a Mac, else torch."
)
DEVICE = click.option("--device", default="auto", metavar="NAME", help="As the framework names it.")
DTYPE = click.option(
    "--dtype",
    default="auto",
    metavar="auto|float32|bfloat16|float16",
    help="auto: float32 on a CPU, the checkpoint's own elsewhere.",
)
QUANTIZE = click.option(
    "--quantize",
    default="none",
    show_default=True,
    metavar="none|int8|int4|int4-32|int4-128",
    help="Hold every model's matrices in 8 or 4 bits, these in groups of 64 inputs or as many as "
    "named. PyTorch alone; for MLX see `models quantize`.",
)
LOADING = together(MODEL, DRAFT, BACKEND, DEVICE, DTYPE, QUANTIZE)
"""For commands that pass them on to `mmspec.engine.load`, all by their names."""
GAMMA = click.option(
    "--gamma",
    type=Gamma(),
    default=5,
    show_default=True,
    help="Tokens drafted a round, 1 to 64. auto: what measured costs and acceptance favour, none "
    "included.",
)
DRAFTING = (
    click.option(
        "--drafting",
        metavar="LETTERS|KIND|ngram|none",
        help="Views of the prompt to draft from: M images, T text only, C captions, P pooled "
        "images, or several, such as MTC; a head's own kind, such as msd; ngram looks the last "
        "words up and needs no draft. Default: a head's kind, MT with images, T without, ngram "
        "where --draft auto finds none.",
    ),
    click.option(
        "--weights",
        type=Weights(),
        default=(),
        help="One per letter, such as 2,1,1. Default: equal.",
    ),
    click.option(
        "--adaptive",
        is_flag=True,
        help="Before every round fit the weights to what the target has said so far.",
    ),
    click.option(
        "--adaptive-rule",
        metavar="lattice|kl|tv|accepted",
        help="How. lattice: weights in steps of 0.1, most matches, then least cross-entropy "
        "(default). Others: each view by its divergence, distance or matches.",
    ),
    click.option(
        "--adaptive-window",
        type=int,
        metavar="N",
        help="How many of the last tokens count. Default: 0, all of the answer.",
    ),
    click.option(
        "--adaptive-carry",
        is_flag=True,
        default=None,
        help="Start each answer from what earlier ones have shown.",
    ),
    click.option(
        "--pool",
        type=int,
        metavar="N",
        help="Positions of a pooled image, a square that the grid divides into. "
        "Default: a quarter of the grid.",
    ),
    click.option(
        "--overflow",
        default="pool",
        show_default=True,
        metavar="pool|drop|run",
        help="For a view longer than the draft's positions.",
    ),
    GAMMA,
    click.option(
        "--tree",
        default="none",
        show_default=True,
        metavar="none|dynamic|N,N,...",
        help="Draft a tree, gamma deep: dynamic grows where the draft is sure (EAGLE-2); numbers, "
        "such as 3,2,1, give each level's children.",
    ),
    click.option(
        "--tree-width",
        type=int,
        metavar="N",
        help="Of a dynamic tree: nodes expanded a level, children of each. Default: 10.",
    ),
    click.option("--tree-nodes", type=int, metavar="N", help="Drafted nodes at most. Default: 60."),
    click.option(
        "--skip-vision",
        type=float,
        metavar="THRESHOLD",
        help="Draft nothing in the round after the target gave images at least this share of its "
        "attention, 0 to 1, such as 0.35. Default: always draft.",
    ),
    click.option(
        "--proposal",
        default="auto",
        metavar="auto|draw|argmax",
        help="How drafted tokens are chosen. auto: drawn when the target samples.",
    ),
)
SAMPLING = (
    click.option(
        "--temperature", type=float, default=0.0, show_default=True, help="0 takes the likeliest."
    ),
    click.option("--top-p", type=float, default=1.0, show_default=True),
    click.option("--top-k", type=int, default=0, show_default=True, help="0 keeps all."),
    click.option("--seed", type=int, default=0, show_default=True),
    click.option("--max-new-tokens", type=int, default=512, show_default=True),
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
PLAIN = click.option(
    "--plain",
    is_flag=True,
    help="No colour, no boxes; also where NO_COLOR is set or output is piped.",
)
ACCEPTED = click.option("--accepted", is_flag=True, help="Mark the drafted tokens that were kept.")


@dataclass(frozen=True, slots=True)
class Setup:
    """What the shared options say: what to load, how to decode, how to print."""

    model: str
    draft: str
    captioner: str
    backend: str
    device: str
    dtype: str
    quantize: str
    options: "Options"
    as_json: bool
    plain: bool
    accepted: bool

    def load(self) -> "Engine":
        """Load target, draft and captioner; raises MmspecError, of options at once."""
        from mmspec.engine import load

        return load(
            self.model,
            self.draft,
            backend=self.backend,
            device=self.device,
            dtype=self.dtype,
            quantize=self.quantize,
            captioner=self.captioner,
            options=self.options,
        )


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give `command` every shared option, passed as its first argument, a `Setup`."""

    @wraps(command)
    def with_setup(*, as_json: bool, plain: bool, accepted: bool, **given: Any) -> Any:
        names = ("model", "draft", "captioner", "backend", "device", "dtype", "quantize")
        engine = {name: given.pop(name) for name in names}
        options = decoding_options(given)
        setup = Setup(**engine, options=options, as_json=as_json, plain=plain, accepted=accepted)
        return command(setup, **given)

    every = together(LOADING, CAPTIONER, *DRAFTING, *SAMPLING, JSON, PLAIN, ACCEPTED)
    return every(with_setup)


def _writable(_: click.Context, __: click.Parameter, out: Path | None) -> Path | None:
    """Refuse a file that could not be written before anything is measured."""
    if out and (out.is_dir() or not os.access(out.parent, os.W_OK)):
        raise click.BadParameter(f"{out} cannot be written: name a file in a folder that is there")
    return out


OUT = click.option(
    "--out",
    type=Path,
    metavar="FILE",
    callback=_writable,
    help="Write the JSON report there too.",
)
