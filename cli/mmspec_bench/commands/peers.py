"""`mmspec bench peers`: compares this project with others on one checkpoint."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from mmspec.chat.options import Gamma
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.quantization import read_scheme
from mmspec.diagnostics.prompts import read_prompts
from mmspec.diagnostics.provenance import provenance
from mmspec.drafters.views import LOOKUP
from mmspec.ground.threads import VARIABLES, cores, default_threads
from mmspec_bench.commands.output import (
    SMALLER,
    note_when_stopped,
    resolve_pair,
    show_tables,
    split,
)
from mmspec_bench.compare.methods import PEERS, peer_methods
from mmspec_bench.compare.runner import Agreement, PeerResult, compare, question_of
from mmspec_bench.compare.script_io import Task
from mmspec_bench.prompts import prompts_for, text_prompts
from mmspec_bench.table import Table
from mmspec_terminal.options import DEVICE, DRAFT, EXACT, JSON, LONGEST, MODEL, OUT, gamma_option
from mmspec_terminal.render import Screen
from mmspec_terminal.setup import with_screen

COUNT = click.IntRange(min=1)
COLUMNS = (
    *("", "tokens/s", "times first", "tokens per round", "first token, ms"),
    *("start to first token, s", "peak, MiB", "same tokens", "as its own plain"),
)
NONE = "-"
NOTE = (
    "Medians [range]. Times first: beside the first row, pair by pair. First token: from the "
    "question. Start to first token: a new process, with loading. Same tokens: as the first row. "
    "As its own plain: answers that equal plain decoding in the same program, and the least number "
    "of tokens before a difference."
)


@click.command()
@MODEL
@DRAFT
@DEVICE
@click.option("--dtype", default="float32", metavar="NAME", help="Of all peers.")
@click.option("--quantize", default="none", metavar="SCHEME", help="Of mmspec on PyTorch.")
@click.option("--peers", default=",".join(PEERS), metavar="LIST", help="Who is measured.")
@click.option("--mlx-vlm", metavar="PYTHON", help="The Python of mlx-vlm's own environment.")
@click.option("--vllm", metavar="PYTHON", help="The Python of vLLM's own environment.")
@click.option("--llama-cpp", metavar="PYTHON", help="The Python that has llama-cpp-python.")
@click.option("--drafting", metavar="LIST", help="Of mmspec. Default: M, without images lookup.")
@gamma_option(5)
@EXACT
@click.option("--threads", type=COUNT, help="Of each program. Default: all cores but one.")
@click.option("--prompts", type=Path, metavar="FILE", help="JSON lines, as for check.")
@click.option("--count", type=COUNT, default=4, help="Default prompts, by set.")
@click.option("--repeats", type=COUNT, default=3, help="Processes of each peer.")
@click.option("--max-new-tokens", type=COUNT, default=96, help=LONGEST)
@with_screen(OUT, JSON)
def peers(
    screen: Screen,
    *,
    model: str,
    draft: str,
    device: str,
    dtype: str,
    quantize: str,
    peers: str,
    mlx_vlm: str | None,
    vllm: str | None,
    llama_cpp: str | None,
    drafting: str | None,
    gamma: Gamma,
    exact: str,
    threads: int | None,
    prompts: Path | None,
    count: int,
    repeats: int,
    max_new_tokens: int,
) -> int:
    """Compare with other programs, each in processes of its own, in turn.

    The row of a program that cannot run gives the reason. mlx-vlm and vLLM need environments of
    their own, in which this project is installed too. vLLM drafts with exported heads alone.
    llama.cpp computes with the GGUF file in the model's directory, in that file's precision.

    Exit status: 0, or 1 if no program ran.
    """
    if not any(name in os.environ for name in VARIABLES):
        threads = threads or default_threads(cores())  # programs take other numbers by themselves
    os.environ.update(dict.fromkeys(VARIABLES if threads else (), str(threads)))
    name, directory, drafts = resolve_pair(model, draft, "torch")
    config = None if drafting and prompts else read_config(directory)
    drafting = drafting or ("M" if config and config.vision else LOOKUP.spec)
    pythons = {"mlx-vlm": mlx_vlm, "vllm": vllm, "llama.cpp": llama_cpp}
    read_scheme(quantize)
    methods = peer_methods(split(peers), split(drafting), gamma, exact, quantize, pythons)
    sets = {"given": read_prompts(prompts)} if prompts else {"text": text_prompts(count)}
    if config and config.vision and not prompts:
        sets = {"images": prompts_for(config, count)} | sets
    counts = {label: len(group) for label, group in sets.items()}
    results: list[PeerResult] = []

    def tables() -> list[Table]:
        return [_table(label, n, repeats, results) for label, n in counts.items() if results]

    note = f"shown are the answers so far, nothing is written; {SMALLER}"
    with note_when_stopped(screen, note, tables), TemporaryDirectory() as folder:
        questions = {
            label: [question_of(prompt, Path(folder)) for prompt in group]
            for label, group in sets.items()
        }
        pair = str(directory), str(drafts) if drafts else None
        task = Task(*pair, device, dtype, {}, max_new_tokens, questions)
        for latest in compare(methods, task, repeats, screen.progress):
            results = latest
    report = {
        "model": name,
        "draft": drafts.name if drafts else None,
        "prompts": counts,
        "repeats": repeats,
        "max_new_tokens": max_new_tokens,
        "peers": [asdict(result) for result in results],
        "provenance": provenance([]),
    }
    screen.report(report, lambda: show_tables(screen, tables()))
    return int(not any(result.figures for result in results))


next(option for option in peers.params if option.name == "model").help = "Target; auto: mini."


def _table(label: str, count: int, repeats: int, results: Sequence[PeerResult]) -> Table:
    """The table of a set of `count` questions."""
    rows = [row(result, label, is_comparable=label in results[0].figures) for result in results]
    answers = max(each.figures[label].answers if label in each.figures else 0 for each in results)
    title = f"{label}: {count} prompts x {repeats}"
    stop = f", at most {answers} answered" if answers < count * repeats else ""
    return Table(title + stop, COLUMNS, rows, NOTE)


def row(result: PeerResult, label: str, *, is_comparable: bool) -> tuple[str, ...]:
    """A method's row on a set of questions: its figures, or why it has none.

    is_comparable: whether the first row has answers.
    """
    figures, start = result.figures.get(label), result.start_seconds
    if figures is None:
        return (result.name, f"cannot: {result.reasons[label]}", *[""] * (len(COLUMNS) - 2))
    equality = "yes"
    if figures.identical < figures.answers:
        equality = f"{figures.identical} of {figures.answers}" if is_comparable else NONE
    return (
        result.name,
        figures.tokens_per_second.text(0),
        figures.speed_up.text(2) if figures.speed_up.median else NONE,
        f"{figures.tokens_per_round:.2f}",
        f"{figures.first_token_seconds.median * 1e3:.0f}",
        NONE if start is None else f"{start:.1f}",
        str(result.peak_memory_bytes // 2**20),
        equality,
        _agreement_text(result.own_plain[label]),
    )


def _agreement_text(agreement: Agreement) -> str:
    """How many answers are those of the program's own plain decoding."""
    if agreement.first_difference is None:
        return "yes" if agreement.answers else NONE
    return f"{agreement.identical} of {agreement.answers}, from {agreement.first_difference}"
