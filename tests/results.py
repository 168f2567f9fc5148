"""Measures tables of docs/results.md.

    python tests/results.py FOLDER [TABLE...]

Each command's report stays in FOLDER and is not measured again; a table is written to docs/results
when its reports are complete.  Tables, with hours on two idle cores: speed 0.1, peers 0.2, auto
0.5, simulated 0.1, heads 2, views 2, which need nothing but the bundled models and are measured if
none is named; replay 0.6 and photographs 0.1 (MMSPEC_BENCHMARK and MMSPEC_WITHOUT_WEIGHTS, as
real/benchmark_files.py says); peers_smollm2 0.2 (MMSPEC_SMOLLM2, the directory of real/smollm2.py,
and MMSPEC_LLAMA_CPP, a Python for `bench peers --llama-cpp`).  docs/results/commands.txt says how
the others are measured.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from shutil import copytree, ignore_patterns
from statistics import median
from subprocess import run
from typing import Any

from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "real"))

from benchmark_files import ANSWERED
from prompts import prompts
from replay import lines as replayed
from smollm2 import FILE, write_float32

from mmspec_bench.report.bench_run import BenchRun, read_run
from mmspec_bench.suite.metrics import (
    Interval,
    acceptance_by_position,
    block_efficiency,
    difference,
    pairs,
    ratio,
    summarise,
    throughput,
    tokens_per_round,
)
from mmspec_bench.suite.rows import PLAIN, AnswerRow
from mmspec_bench.table import csv_text

TESTS = Path(__file__).parent
PAGES = TESTS.parent / "docs" / "results"
NAMES = {"torch": "PyTorch", "mlx": "MLX"}
BACKENDS = tuple(NAMES)
HEADS = ("msd", "eagle", "dspark", "eagle3", "flash", "hydra", "medusa")
SHAPES = {"chain": "", "tree 12": "tree12w4:", "tree 24": "tree24w6:", "tree 60": "tree:"}
"""Methods' prefixes by the names of the table of heads."""
VIEWS = "M,T,C,P,MT,MTC,MTCP,adaptive:MTC,adaptive:MTCP,lookup,M/pool,M/drop,M/run"
VIEWS += ",adaptive:MTC/pool"
LENGTHS = "auto,1,2,3,4,5,7"
ROUNDS = {
    "one image": f"--drafting M --gammas {LENGTHS} --repeats 3 --count 30",
    "stories": f"--drafting M --gammas {LENGTHS} --repeats 4 --count 20 --tasks vist,pororo",
    "text": f"--drafting M --gammas {LENGTHS} --repeats 3 --count 30 --tasks told",
    "unknown prompts": f"--drafting M --gammas {LENGTHS} --repeats 8 "
    f"--prompts {TESTS / 'unknown_prompts.jsonl'}",
    "drafting loses": "--draft mini --drafting T --gammas auto,1,3,5 --repeats 2 --count 16",
}
"""Options of `bench speed` by the kind of prompt."""

Line = dict[str, Any]


def measured(place: Path, command: str, *more: str) -> dict[str, Any]:
    """The JSON report of a command of `mmspec`, from `place` if it was measured before."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_suffix(".partial")
        assert (
            mmspec(f"{command} --plain", *more, "--out", str(partial)) < 2
        )  # 1: an answer differs
        partial.rename(place)
    report: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return report


def suite(place: Path, command: str) -> BenchRun:
    """The rows of a `bench run`, which goes on where it was interrupted."""
    assert mmspec(f"{command} --plain --resume", "--out", str(place)) == 0
    return read_run(place)


def mmspec(command: str, *more: str) -> int:
    """Run a command in a process of its own; returns its exit status."""
    words = [sys.executable, "-m", "mmspec_cli", *command.split(), *more]
    return run(words, stdout=sys.stderr, check=False).returncode


def speeds(report: Mapping[str, Any], **place: object) -> Iterator[Line]:
    """A line for each method of a `bench speed`."""
    run_of = {"commit": report["provenance"]["commit"], "disturbed": bool(report["problem"])}
    for method in report["methods"]:
        yield place | {
            "method": method["name"],
            **spread("tokens_per_second", method["tokens_per_second"]),
            **spread("times_plain", method["speed_up"]),
            "overall": round(method["speed_up_overall"], 3),
            "tokens_per_round": round(method["tokens_per_round"], 3),
            "acceptance_rate": round(method["acceptance_rate"], 3),
            "identical": method["identical"],
            "answers": method["answers"],
            **run_of,
        }


def spread(name: str, values: Mapping[str, float]) -> Line:
    """A median and the ends of its range."""
    return {
        name: round(values["median"], 3),
        f"{name}_least": round(values["least"], 3),
        f"{name}_most": round(values["most"], 3),
    }


def speed(folder: Path) -> Iterator[Line]:
    """Two fixed choices and auto beside plain decoding, with one image."""
    for backend in BACKENDS:
        options = "--count 4 --repeats 3 --drafting M+lookup --gammas 5,auto --threads 1"
        command = f"bench speed --model mini --backend {backend} {options}"
        yield from speeds(measured(folder / f"{backend}.json", command), backend=backend)


def auto(folder: Path) -> Iterator[Line]:
    """Every fixed length and auto, after calibration."""
    for backend in BACKENDS:
        assert mmspec(f"calibrate --model mini --backend {backend} --threads 1") == 0
        for kind, options in ROUNDS.items():
            command = f"bench speed --model mini --backend {backend} --threads 1 {options}"
            report = measured(folder / f"{backend} {kind}.json", command)
            yield from speeds(report, backend=backend, prompts=kind)


def peers(folder: Path) -> Iterator[Line]:
    """mmspec beside transformers, each in a process of its own."""
    options = "--device cpu --threads 1 --peers torch,mlx,transformers --count 4 --repeats 3"
    return peer_lines(measured(folder / "peers.json", f"bench peers --model mini {options}"))


def peers_smollm2(folder: Path) -> Iterator[Line]:
    """Two short and two long prompts to SmolLM2; llama.cpp has its weights in 32 and in 4 bits."""
    directory, python = (os.environ[f"MMSPEC_{name}"] for name in ("SMOLLM2", "LLAMA_CPP"))
    copy, questions = folder / "float32", folder / "prompts.jsonl"
    if not questions.exists():
        copytree(directory, copy, ignore=ignore_patterns(FILE), dirs_exist_ok=True)
        write_float32(Path(directory, FILE), copy / "float32.gguf")
        lines = [json.dumps({"prompt": text}, ensure_ascii=False) for text in prompts(100)]
        short = [line for line in lines if len(line) < 260]
        long = [line for line in lines if len(line) > 500]
        questions.write_text("\n".join([*short[:2], *long[:2]]), encoding="utf-8")
    options = "--draft none --device cpu --threads 1 --exact off --max-new-tokens 48 --repeats 3"
    for bits, model, programs in (
        ("32", str(copy), "torch,mlx,transformers,mlx-lm,llama.cpp"),
        ("4", directory, "torch,llama.cpp"),
    ):
        where = ("--model", model, "--prompts", str(questions), "--llama-cpp", python)
        command = f"bench peers {options} --peers {programs}"
        for line in peer_lines(measured(folder / f"{bits}.json", command, *where)):
            yield {"llama.cpp's bits": bits} | line


def peer_lines(report: Mapping[str, Any]) -> Iterator[Line]:
    """A line for each program that ran and kind of prompt."""
    for peer in report["peers"]:
        for kind, figures in peer["figures"].items():
            own = peer["own_plain"][kind]
            yield {
                "program": peer["name"],
                "prompts": kind,
                **spread("tokens_per_second", figures["tokens_per_second"]),
                **spread("times_first", figures["speed_up"]),
                "tokens_per_round": round(figures["tokens_per_round"], 3),
                "first_token_ms": round(1e3 * figures["first_token_seconds"]["median"], 1),
                "start_seconds": peer["start_seconds"] and round(peer["start_seconds"], 2),
                "peak_mib": peer["peak_memory_bytes"] // 2**20,
                "as_first": f"{figures['identical']} of {figures['answers']}",
                "as_own_plain": f"{own['identical']} of {own['answers']}",
                "commit": report["provenance"]["commit"],
            }


def heads(folder: Path) -> Iterator[Line]:
    """Chains and trees of each head and of the draft: text alone has T of the draft."""
    for kind in (*HEADS, "draft"):
        name = f"mini-{kind}"
        images, text = (
            answers(folder / f"{name} {where}", name, view if kind == "draft" else kind, options)
            for where, view, options in (
                ("offline", "M", "--suite offline --limit 4"),
                ("text", "T", "--suite offline-text --limit 20"),
            )
        )
        chain, texts = images["chain"], [block_efficiency(text[s]) for s in ("chain", "tree 60")]
        seconds = sum(round_.draft_seconds for row in chain for round_ in row.rounds)
        parts = ([row for row in chain if row.images == count] for count in (1, 2, 4, 5))
        yield {
            "drafter": "mini-draft, M (text: T)" if kind == "draft" else name,
            "million parameters": f"{parameters(name) / 1e6:.1f}",
            "ms a drafted token": f"{1e3 * seconds / sum(row.drafted for row in chain):.2f}",
            **{
                shape: cell(rows, images["plain"])
                for shape, rows in images.items()
                if shape in SHAPES
            },
            "accepted at positions 1 to 5": " ".join(
                f"{100 * share:.0f}" for share in acceptance_by_position(chain)[:5]
            )
            + " %",
            "chain with 1, 2, 4, 5 images": " ".join(f"{block_efficiency(p):.2f}" for p in parts),
            "text alone: chain, tree 60": ", ".join(f"{value:.2f}" for value in texts),
            "the target's forwards a token": f"{1 / block_efficiency(chain):.3f}",
            "same texts": f"{sum(row.identical is True for row in chain)} of {len(chain)}",
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
    files = (TESTS.parent / "models" / "mmspec_models" / name).glob("*.safetensors")
    return sum(array.size for file in files for array in load_file(file).values())


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


def replay(folder: Path) -> Iterator[Line]:
    """Recorded answers of real models, drafted by lookup."""
    return (line for model in ANSWERED for line in replayed(model, folder / model))


def script(table: str, words: str) -> None:
    """Run a script of this folder that writes its own table."""
    with (PAGES / f"{table}.csv.partial").open("w", encoding="utf-8") as file:
        run([sys.executable, *words.split()], cwd=TESTS, stdout=file, check=True)
    (PAGES / f"{table}.csv.partial").rename(PAGES / f"{table}.csv")


TABLES = {"speed": speed, "peers": peers, "auto": auto, "heads": heads, "views": views}
WITH_FILES = {"replay": replay, "peers_smollm2": peers_smollm2}
SCRIPTS = {"simulated": "simulate.py --runs 20", "photographs": "real/photographs.py"}


def main(folder: str, *names: str) -> None:
    """Measure the tables named, or all that need no other files."""
    for name in names or (*TABLES, "simulated"):
        if name in SCRIPTS:
            script(name, SCRIPTS[name])
        else:
            table = csv_text([*(TABLES | WITH_FILES)[name](Path(folder) / name)])
            (PAGES / f"{name}.csv").write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
