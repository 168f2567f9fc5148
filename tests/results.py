"""Measures tables of docs/results.md.

    python tests/results.py FOLDER [TABLE...]

Each command's report stays in FOLDER and is not measured again; a table is written to docs/results
when its reports are complete.  Tables, with hours on two idle cores: speed 0.1, peers 0.2, auto
0.5, heads 0.5, with_lookup 0.3, views 2, exact_price 0.6, simulated 0.1, which need nothing but the
bundled models and are measured if none is named; replay 0.6 and photographs 0.1 (MMSPEC_BENCHMARK
and MMSPEC_WITHOUT_WEIGHTS, as real/benchmark_files.py says); peers_smollm2 0.2 (MMSPEC_SMOLLM2, the
directory of real/smollm2.py, and MMSPEC_LLAMA_CPP, a Python for `bench peers --llama-cpp`).
docs/results/commands.txt says how the others are measured.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import copytree, ignore_patterns
from subprocess import run
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "real"))

from benchmark_files import ANSWERED
from prompts import prompts
from replay import lines as replayed
from smollm2 import FILE, write_float32
from suite_tables import Line, calibrate, heads, mmspec, views, with_lookup

from mmspec_bench.table import csv_text

TESTS = Path(__file__).parent
PAGES = TESTS.parent / "docs" / "results"
NAMES = {"torch": "PyTorch", "mlx": "MLX"}
BACKENDS = tuple(NAMES)
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


def measured(place: Path, command: str, *more: str) -> dict[str, Any]:
    """The JSON report of a command of `mmspec`, from `place` if it was measured before."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_suffix(".partial")
        status = mmspec(f"{command} --plain", *more, "--out", str(partial))
        assert status < 2  # 1: an answer differs
        partial.rename(place)
    report: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return report


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
        if len([*folder.glob(f"{backend} *.json")]) < len(ROUNDS):
            calibrate(backend)
        for kind, options in ROUNDS.items():
            command = f"bench speed --model mini --backend {backend} --threads 1 {options}"
            report = measured(folder / f"{backend} {kind}.json", command)
            yield from speeds(report, backend=backend, prompts=kind)


def peers(folder: Path) -> Iterator[Line]:
    """mmspec beside transformers, each in a process of its own."""
    options = "--device cpu --threads 1 --peers torch,mlx,transformers --count 4 --repeats 3"
    return peer_lines(measured(folder / "peers.json", f"bench peers --model mini {options}"))


def peers_smollm2(folder: Path) -> Iterator[Line]:
    """Two short and two long prompts to SmolLM2, in float32; then two programs in 4 bits."""
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
    four_bits = "--dtype bfloat16 --quantize int4-32"
    for bits, model, programs in (
        ("32", str(copy), "--peers torch,mlx,transformers,mlx-lm,llama.cpp"),
        ("4", directory, f"--peers torch,llama.cpp {four_bits}"),
    ):
        where = ("--model", model, "--prompts", str(questions), "--llama-cpp", python)
        command = f"bench peers {options} {programs}"
        for line in peer_lines(measured(folder / f"{bits}.json", command, *where)):
            yield {"bits": bits} | line


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


def replay(folder: Path) -> Iterator[Line]:
    """Recorded answers of real models, drafted by lookup."""
    return (line for model in ANSWERED for line in replayed(model, folder / model))


def script(table: str, words: str) -> None:
    """Run a script of this folder that writes its own table."""
    with (PAGES / f"{table}.csv.partial").open("w", encoding="utf-8") as file:
        run([sys.executable, *words.split()], cwd=TESTS, stdout=file, check=True)
    (PAGES / f"{table}.csv.partial").rename(PAGES / f"{table}.csv")


TABLES = {make.__name__: make for make in (speed, peers, auto, heads, with_lookup, views)}
WITH_FILES = {make.__name__: make for make in (replay, peers_smollm2)}
SCRIPTS = {
    "exact_price": "exact_price.py",
    "photographs": "real/photographs.py",
    "simulated": "simulate.py --runs 20",
}


def main(folder: str, *names: str) -> None:
    """Measure the tables named, or all that need no other files."""
    for name in names or (*TABLES, "exact_price", "simulated"):
        if name in SCRIPTS:
            script(name, SCRIPTS[name])
        else:
            table = csv_text([*(TABLES | WITH_FILES)[name](Path(folder) / name)])
            (PAGES / f"{name}.csv").write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
