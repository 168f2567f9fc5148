"""`mmspec bench peers`: this project and others on one checkpoint, in one run."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from mmspec.bench.peers.catalogue import PEERS, catalogue
from mmspec.bench.peers.measure import measure, questions
from mmspec.bench.peers.report import COLUMNS, PeerReport, counted, markdown, rows
from mmspec.bench.peers.wire import Question, Setup
from mmspec.bench.prompts import drawn, read_prompts, written
from mmspec.bench.provenance import provenance
from mmspec.cards import load_cards
from mmspec.config import read_config
from mmspec.errors import UsageError
from mmspec.hub import resolve
from mmspec.options import Gamma
from mmspec_cli.options import DEVICE, DRAFT, GAMMA, JSON, MODEL, OUT, PLAIN
from mmspec_cli.render import Screen

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
COUNT = click.IntRange(min=1)


@click.command()
@MODEL
@DRAFT
@DEVICE
@click.option("--dtype", default="float32", show_default=True, metavar="NAME", help="Of all arms.")
@click.option(
    "--peers", default=",".join(PEERS), show_default=True, metavar="LIST", help="Who is measured."
)
@click.option("--mlx-vlm", metavar="PYTHON", help="The Python of mlx-vlm's own environment.")
@click.option("--drafting", default="M", show_default=True, metavar="LIST", help="Of mmspec.")
@GAMMA
@click.option("--threads", type=COUNT, help="Of every worker. Default: as the environment says.")
@click.option("--prompts", type=Path, metavar="FILE", help="JSON lines, as for parity.")
@click.option("--count", type=COUNT, default=4, show_default=True, help="Drawn prompts, and texts.")
@click.option("--repeats", type=COUNT, default=3, show_default=True)
@click.option("--max-new-tokens", type=COUNT, default=96, show_default=True)
@OUT
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
@JSON
@PLAIN
def peers(as_json: bool, as_markdown: bool, plain: bool, out: Path | None, **given: Any) -> None:
    """Compare with transformers, mlx-lm and mlx-vlm: interleaved, a process each.

    One that cannot run says why in its row. mlx-vlm needs an environment of its own, in which
    this project is installed too.
    """
    screen = Screen(plain=plain)
    report = _measured(screen, **given)
    if out:
        out.write_text(json.dumps(report.as_dict(), indent=2) + "\n", encoding="utf-8")
    if as_json:
        screen.json(report.as_dict())
    elif as_markdown:
        screen.say(markdown(report))
    else:
        _show(screen, report)


def _measured(
    screen: Screen,
    *,
    model: str,
    draft: str,
    device: str,
    dtype: str,
    peers: str,
    mlx_vlm: str | None,
    drafting: str,
    gamma: Gamma,
    threads: int | None,
    prompts: Path | None,
    count: int,
    repeats: int,
    max_new_tokens: int,
) -> PeerReport:
    os.environ.update(dict.fromkeys(THREADS if threads else (), str(threads)))
    arms = catalogue(_split(peers), _split(drafting), gamma, mlx_vlm)
    name, directory, drafts = _named(model, draft)
    with TemporaryDirectory() as folder:
        sets = _sets(directory, prompts, count, max_new_tokens, Path(folder))
        told = Setup(str(directory), str(drafts) if drafts else None, device, dtype)
        results = measure(arms, sets, told, repeats, screen.progress)
    return PeerReport(
        name,
        drafts.name if drafts else None,
        {label: len(asked) for label, asked in sets.items()},
        repeats,
        max_new_tokens,
        results,
        provenance([]),
    )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _named(model: str, draft: str) -> tuple[str, Path, Path | None]:
    """The target's name and directory, and the draft's; both as every peer reads them."""
    name = "mini" if model == "auto" else model
    directory = resolve(name, "torch")
    if draft == "auto":
        card = load_cards().get(name)
        draft = card.pair or "none" if card else "none"
    return name, directory, None if draft == "none" else resolve(draft, "torch")


def _sets(
    directory: Path, prompts: Path | None, count: int, max_new_tokens: int, folder: Path
) -> dict[str, list[Question]]:
    """Questions about images, which not every peer can be asked, and text alone."""
    if prompts:
        return {"given": questions(read_prompts(prompts), folder, max_new_tokens)}
    vision = read_config(directory).vision
    if vision is None:
        raise UsageError(f"{directory} sees no images: bench peers compares models that do")
    images = drawn(count, size=vision.image_size)
    every = {"images": images, "text": written(count)}
    return {label: questions(asked, folder, max_new_tokens) for label, asked in every.items()}


def _show(screen: Screen, report: PeerReport) -> None:
    for label in report.prompts:
        screen.say(counted(report, label))
        screen.table(COLUMNS, rows(report.peers, label))
    threads = report.provenance["threads"]["OMP_NUM_THREADS"] or "all"
    screen.say(f"{report.model} with {report.draft}; medians [range]; threads: {threads}")
