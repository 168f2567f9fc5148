"""Measures the tables of docs/results.md that need nothing but the bundled models.

    python tests/results.py FOLDER [TABLE...]      all: about 3 hours on two idle cores
    python tests/results.py                        the lines that the page shows of two tables

Each command's report stays in FOLDER and is not measured again; a table is written to docs/results
when its reports are complete.  Tables, with hours: speed 0.1, peers 0.2, auto 0.5, simulated 0.3,
heads 2.  docs/results/commands.txt says how the others are measured.
"""

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from subprocess import run
from typing import Any

from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).parent))

from mmspec_bench.report.bench_run import BenchRun, read_run
from mmspec_bench.suite.metrics import (
    acceptance_by_position,
    block_efficiency,
    pairs,
    ratio,
    throughput,
)
from mmspec_bench.suite.rows import PLAIN, AnswerRow
from mmspec_bench.table import csv_text

TESTS = Path(__file__).parent
PAGES = TESTS.parent / "docs" / "results"
NAMES = {"torch": "PyTorch", "mlx": "MLX"}
BACKENDS = tuple(NAMES)
GAMMA = "\N{GREEK SMALL LETTER GAMMA}"
HEADS = ("msd", "eagle", "dspark", "eagle3", "flash", "hydra", "medusa")
SHAPES = {"chain": "", "tree 12": "tree12w4:", "tree 24": "tree24w6:", "tree 60": "tree:"}
"""Methods' prefixes by the names of the table of heads."""
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


def measured(place: Path, command: str) -> dict[str, Any]:
    """The JSON report of a command of `mmspec`, from `place` if it was measured before."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_suffix(".partial")
        mmspec(f"{command} --plain", "--out", str(partial))  # 1 if an answer differs
        partial.rename(place)
    report: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return report


def suite(place: Path, command: str) -> BenchRun:
    """The rows of a `bench run`, which goes on where it was interrupted."""
    assert mmspec(f"{command} --plain", "--out", str(place)) == 0
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
    report = measured(folder / "peers.json", f"bench peers --model mini {options}")
    for peer in report["peers"]:
        for prompts, figures in peer["figures"].items():
            own = peer["own_plain"][prompts]
            yield {
                "program": peer["name"],
                "prompts": prompts,
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


def script(table: str, words: str) -> None:
    """Run a script of this folder that writes its own table."""
    with (PAGES / f"{table}.csv.partial").open("w", encoding="utf-8") as file:
        run([sys.executable, *words.split()], cwd=TESTS, stdout=file, check=True)
    (PAGES / f"{table}.csv.partial").rename(PAGES / f"{table}.csv")


TABLES = {"speed": speed, "peers": peers, "auto": auto, "heads": heads}
SCRIPTS = {"simulated": "simulate.py --runs 20"}


def page_lines() -> list[str]:
    """The lines of docs/results.md that show the tables `speed` and `auto`."""
    lines = []
    for line in (line for line in read("speed") if line["method"] != "plain"):
        name = f"{NAMES[line['backend']]}, {line['method']}".replace(
            "gamma", "\N{GREEK SMALL LETTER GAMMA}"
        )
        rate, times = interval(line, "tokens_per_second", 0), interval(line, "times_plain", 2)
        default = ", the default" if "+lookup" in name and name.endswith("auto") else ""
        lines.append(f"| {name}{default} | {rate} | {times} | {line['tokens_per_round']:.2f} |")
    rows = read("auto")
    for backend in BACKENDS:
        cells = []
        for kind in ROUNDS:
            own = [row for row in rows if (row["backend"], row["prompts"]) == (backend, kind)]
            [chosen] = (row["overall"] for row in own if row["method"].endswith("auto"))
            best = max(row["overall"] for row in own if not row["method"].endswith("auto"))
            cells.append(f"{chosen:.2f}, {best:.2f}")
        lines.append(" | ".join([f"| {NAMES[backend]}", *cells]) + " |")
    return lines


def read(table: str) -> list[Line]:
    """The lines of a table, numbers as such."""
    with (PAGES / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        return [{k: number(v) for k, v in line.items()} for line in csv.DictReader(file)]


def number(word: str) -> Any:
    """A number if the word is one, else the word."""
    try:
        return float(word)
    except ValueError:
        return word


def interval(line: Line, name: str, digits: int) -> str:
    """A median with the ends of its range, as the page writes it; 1 alone for plain decoding."""
    value, least, most = (f"{line[name + end]:.{digits}f}" for end in ("", "_least", "_most"))
    return value if least == most else f"{value} [{least}..{most}]"


def main(folder: str, *names: str) -> None:
    """Measure the tables named, or all."""
    for name in names or (*TABLES, *SCRIPTS):
        if name in SCRIPTS:
            script(name, SCRIPTS[name])
        else:
            table = csv_text([*TABLES[name](Path(folder) / name)])
            (PAGES / f"{name}.csv").write_text(table, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        main(*sys.argv[1:])
    else:
        print("\n".join(page_lines()))  # noqa: T201
