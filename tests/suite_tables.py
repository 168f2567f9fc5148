"""Tables of docs/results that are made from `bench run`."""

import sys
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path
from statistics import median
from subprocess import run
from typing import Any

from safetensors.numpy import load_file

from mmspec_bench.report.bench_run import BenchRun, read_run
from mmspec_bench.suite.metrics import (
    Interval,
    acceptance_by_position,
    block_efficiency,
    difference,
    mean,
    pairs,
    ratio,
    summarise,
    throughput,
    tokens_per_round,
)
from mmspec_bench.suite.rows import PLAIN, AnswerRow

MODELS = Path(__file__).parent.parent / "models" / "mmspec_models"
HEADS = ("msd", "eagle", "dspark", "eagle3", "flash", "hydra", "medusa")
SHAPES = {"chain": "", "tree 12": "tree12w4:", "tree 24": "tree24w6:", "tree 60": "tree:"}
"""Methods' prefixes by the names of the table of heads."""
VIEWS = "M,T,C,P,MT,MTC,MTCP,adaptive:MTC,adaptive:MTCP,lookup,M/pool,M/drop,M/run"
VIEWS += ",adaptive:MTC/pool"
SUITES = {"offline": "--suite offline --limit 4", "text": "--suite offline-text --limit 20"}
"""Options of `bench run` for heads, by the kind of prompt."""
BESIDE = (
    ("torch", "5", ("eagle3", "dspark", "msd", "M")),
    ("torch", "auto", ("eagle3", "M")),
    ("mlx", "auto", ("eagle3", "M")),
)
"""Backend, gamma and the drafters that have lookup beside them."""

Line = dict[str, Any]


def suite(place: Path, command: str) -> BenchRun:
    """The rows of a `bench run`, which goes on where it was interrupted."""
    assert mmspec(f"{command} --plain --resume", "--out", str(place)) == 0
    return read_run(place)


def calibrate(backend: str) -> None:
    """Measure the costs of rounds of `mini` with its draft, for --gamma auto."""
    assert mmspec(f"calibrate --model mini --backend {backend} --threads 1") == 0


def mmspec(command: str, *more: str) -> int:
    """Run a command in a process of its own; returns its exit status."""
    words = [sys.executable, "-m", "mmspec_cli", *command.split(), *more]
    return run(words, stdout=sys.stderr, check=False).returncode


def heads(folder: Path) -> Iterator[Line]:
    """Chains and trees of each head and of the draft: text alone has T of the draft."""
    for kind in (*HEADS, "draft"):
        name = f"mini-{kind}"
        images, text = (
            answers(folder / f"{name} {where}", name, view if kind == "draft" else kind, options)
            for (where, options), view in zip(SUITES.items(), ("M", "T"), strict=True)
        )
        chains, texts = images["chain"], [block_efficiency(text[s]) for s in ("chain", "tree 60")]
        seconds = sum(round_.draft_seconds for row in chains for round_ in row.rounds)
        parts = ([row for row in chains if row.images == count] for count in (1, 2, 4, 5))
        shares = (f"{100 * share:.0f}" for share in acceptance_by_position(chains)[:5])
        yield {
            "drafter": "mini-draft, M (text: T)" if kind == "draft" else name,
            "million parameters": f"{parameters(name) / 1e6:.1f}",
            "ms a drafted token": f"{1e3 * seconds / sum(row.drafted for row in chains):.2f}",
            **{shape: cell(images[shape], images["plain"]) for shape in SHAPES},
            "accepted at positions 1 to 5": f"{' '.join(shares)} %",
            "chain with 1, 2, 4, 5 images": " ".join(f"{block_efficiency(p):.2f}" for p in parts),
            "text alone: chain, tree 60": ", ".join(f"{value:.2f}" for value in texts),
            "the target's forwards a token": f"{1 / block_efficiency(chains):.3f}",
            "same texts": f"{sum(row.identical is True for row in chains)} of {len(chains)}",
        }


def answers(place: Path, name: str, kind: str, options: str) -> dict[str, list[AnswerRow]]:
    """The answers of a drafter by shape, and plain ones."""
    methods = {"plain": PLAIN} | {shape: prefix + kind for shape, prefix in SHAPES.items()}
    command = f"bench run --model mini --draft {name} --threads 1 {options}"
    found = suite(place, f"{command} --methods {','.join(methods.values())}")
    return {shape: found.of(method) for shape, method in methods.items()}


def cell(rows: list[AnswerRow], plain: list[AnswerRow]) -> str:
    """Tokens per round, and the median over answers of the speed in times plain decoding."""
    times = [ratio(throughput([own]), throughput([other])) for own, other in pairs(rows, plain)]
    return f"{block_efficiency(rows):.2f}, {median(times):.2f} \N{MULTIPLICATION SIGN}"


def parameters(name: str) -> int:
    """The count of numbers in a bundled model's files."""
    files = (MODELS / name).glob("*.safetensors")
    return sum(array.size for file in files for array in load_file(file).values())


def with_lookup(folder: Path) -> Iterator[Line]:
    """Lookup beside heads and view M, where the surer drafts; auto after calibrating mini-draft."""
    for backend, gamma, drafters in BESIDE:
        if gamma == "auto" and not (folder / f"{backend} auto {[*SUITES][-1]}").exists():
            calibrate(backend)
        heads = ("draft" if each == "M" else each for each in drafters)
        drafts = " ".join(f"--draft mini-{head}" for head in heads)
        methods = [PLAIN, "lookup", *chain.from_iterable((d, f"{d}+lookup") for d in drafters)]
        command = (
            f"bench run --model mini --backend {backend} --threads 1 --exact off {drafts} "
            f"--methods {','.join(methods)} --gamma {gamma}"
        )
        for prompts, options in SUITES.items():
            found = suite(folder / f"{backend} {gamma} {prompts}", f"{command} {options}")
            place = {"backend": backend, "gamma": gamma, "prompts": prompts}
            yield from (place | beside(found, method) for method in methods)


def beside(found: BenchRun, method: str) -> Line:
    """A method's figures, also over those of its drafter and of lookup alone."""
    rows, alone = found.of(method), method.removesuffix("+lookup")
    others = {"over_drafter": alone, "over_lookup": "lookup"} if alone != method else {}
    gains = [ends(name, difference(rows, found.of(other))) for name, other in others.items()]
    return {
        "method": method,
        "answers": len(rows),
        "tokens": sum(row.emitted for row in rows),
        "tokens_per_round": round(block_efficiency(rows), 3),
        **dict(chain.from_iterable(gain.items() for gain in gains)),
        "rounds_by_lookup": round(mean(r.by_lookup for row in rows for r in row.rounds), 3),
        "times_plain": round(throughput(rows) / throughput(found.of(PLAIN)), 3),
        "identical": sum(row.identical is not False for row in rows),
    }


def views(folder: Path) -> Iterator[Line]:
    """Views and mixtures by the images of a conversation, beside the first of VIEWS."""
    parts = sorted(folder.glob("part*"))  # of --shard, one for each core
    command = f"bench run --model mini --threads 1 --methods {PLAIN},{VIEWS}"
    found = read_run(*parts) if parts else suite(folder / "whole", command)
    for method, images in product(found.drafting, ("all", 1, 2, 4, 5)):
        rows, others = (
            [row for row in found.of(name) if images in ("all", row.images)]
            for name in (method, VIEWS.partition(",")[0])
        )
        yield {
            "method": method,
            "images": images,
            "answers": len(rows),
            **ends("tokens_per_round", tokens_per_round(rows)),
            **(ends("difference", difference(rows, others)) if method != others[0].method else {}),
            "acceptance_rate": round(summarise(rows, [])["acceptance_rate"], 3),
            "identical": sum(row.identical is True for row in rows),
        }


def ends(name: str, interval: Interval | None) -> Line:
    """A value of samples and the ends of its interval."""
    _, *values = interval or (0, 0.0, 0.0, 0.0)
    names = (name, f"{name}_low", f"{name}_high")
    return {each: round(value or 0.0, 4) for each, value in zip(names, values, strict=True)}
