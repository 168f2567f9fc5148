"""Count the answers that drafting changes, with exact decoding and without, by number type.

    python tests/exactness.py [--backend torch] [--kinds bfloat16,int8] [--device cuda]
        [--no-graphs] [--share 1] [--mini 5] [--out FILE]

Each pair is an answer with and one without drafting, to the same conversation: three random tiny
LLaVAs, a tiny Qwen3-VL and Qwen2.5-VL, and `mini`. Every view, mixture (also with adaptive
weights), lookup and head drafts chains of 1 to 8 and trees of 12 and 24 tokens, greedy and at
temperature 0.8, for one of the random targets, and every MINI-th for `mini`; with one to five
images, second turns, undo, retry, and a third turn that the plain chat reads anew. Prints a line
per type; FILE gets a row of CSV per family, type and drafting. Exits with 1 if exact answers
differ.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import mmspec_torch.backend
from mmspec.chat.engine import load
from mmspec.chat.plugins import load_backend
from mmspec_bench.table import csv_text
from support.exactness_cases import cases, compare_all
from support.factory import tiny_pair
from support.factory_fit import fit_head
from support.factory_heads import KINDS as HEADS
from support.factory_heads import tiny_head
from support.factory_qwen import ROPES, tiny_qwen

MINI = Path(__file__).parent.parent / "models" / "mmspec_models" / "mini"
KINDS_OF = {
    "torch": ("float32", "bfloat16", "float16", "int8", "int4"),
    "mlx": ("float32", "bfloat16", "float16", "4 bits", "8 bits"),
}
"""The number types of each backend that the table shows."""
MODES = ("on", "off")
VIEWS = ("M", "T", "C", "P", "MT", "MTC", "MTCP", "lookup")
BUNDLED = [kind for kind in HEADS if (MINI.parent / f"mini-{kind}").exists()]
MINI_DRAFTS = {"": "mini-draft", **{kind: f"mini-{kind}" for kind in BUNDLED}}
"""The draft of `mini`, and its heads by drafting."""
TINY, LENGTH = 3, {"mini": 24}
"""Random LLaVAs; tokens of an answer, else 20."""
TARGETS = TINY + len(ROPES)
"""Random targets, to each of which other cases fall."""


Models = tuple[str, Path, Mapping[str, str]]
"""A family, a target, and its heads by drafting; its draft is ''."""


def random_models(folder: Path) -> Iterator[Models]:
    """Write the random targets and what drafts for them."""
    for seed in range(TINY):
        place = folder / f"llava {seed}"
        tiny_pair(place, seed=seed)
        yield "LLaVA", place / "target", with_heads(place, seed)
    for family, rope in ROPES.items():
        place = folder / family
        # MLX's float32 products of grouped queries are not exact on a CPU.
        tiny_qwen(family, place / "target", seed=1, key_value_heads=4)
        tiny_qwen(family, place / "draft", seed=2, key_value_heads=4, layers=2)
        yield family, place / "target", with_heads(place, 1, rope_scaling=rope)


def with_heads(place: Path, seed: int, **eagle3: object) -> dict[str, str]:
    """Write a head of every kind for the target in `place`; returns what drafts for it."""
    for kind in HEADS:
        given = eagle3 if kind == "eagle3" else {}
        fit_head(tiny_head(place / kind, kind, seed=seed, **given), place / "target")
    return {"": str(place / "draft"), **{kind: str(place / kind) for kind in HEADS}}


def options_of(kind: str) -> dict[str, str]:
    """How `load` is told a number type."""
    if kind.startswith("int"):
        return {"dtype": "bfloat16", "quantize": kind}
    return {"dtype": "auto" if kind.endswith(" bits") else kind}


def in_bits(target: Path, kind: str, place: Path) -> Path:
    """The checkpoint for `kind`: for `4 bits` and `8 bits` a copy in MLX's format."""
    if not kind.endswith(" bits"):
        return target
    if not place.exists():
        load_backend("mlx").quantize(target, place, bits=int(kind.split()[0]), group_size=64)
    return place


Counts = dict[tuple[str, str], Counter[tuple[str, bool]]]
"""By family and mode of exact decoding: pairs by drafting and whether they are equal."""


def compared(
    models: list[Models], backend: str, kind: str, given: argparse.Namespace, folder: Path
) -> Counts:
    """The pairs of a number type; each case falls to one target of a family."""
    counts: Counts = defaultdict(Counter)
    every = cases([*VIEWS, *HEADS])
    for number, (family, target, drafts) in enumerate(models):
        path = str(in_bits(target, kind, folder / f"{number} {kind}"))
        own = every[number::TARGETS]
        if family == "mini":
            own = [case for case in every if case.drafting in {*VIEWS, *drafts}][:: given.mini]
        options = {"backend": backend, "device": given.device, **options_of(kind)}
        engines = {word: load(path, draft, **options) for word, draft in drafts.items()}
        for mode in MODES:
            pairs = compare_all(engines, own[:: given.share], mode, LENGTH.get(family, 20))
            found = Counter((case.drafting, equal) for case in pairs for equal in pairs[case])
            counts[family, mode] += found
            words = "{1} of {0} differ".format(*totals(found))
            sys.stderr.write(f"{backend} {kind} {family}, exact {mode}: {words}\n")
    return counts


def totals(counts: Counter[tuple[str, bool]]) -> tuple[int, int]:
    """Numbers of pairs and of those that differ."""
    return counts.total(), sum(n for (_, equal), n in counts.items() if not equal)


def rows(backend: str, kind: str, found: Counts) -> Iterator[dict[str, object]]:
    """Rows of the table, by family, mode and drafting."""
    for (family, mode), counts in found.items():
        for drafting in dict.fromkeys(word for word, _ in counts):
            equal = counts[drafting, True]
            yield {
                "family": family,
                "backend": backend,
                "type": kind,
                "exact": mode,
                "drafting": drafting,
                "pairs": equal + counts[drafting, False],
                "equal": equal,
            }


def line(backend: str, kind: str, found: Counts) -> dict[str, str | int]:
    """Pairs of all families together and those that differ, by mode of exact decoding."""
    together: dict[str, str | int] = {"backend": backend, "kind": kind}
    for mode in MODES:
        counts = sum((own for (_, each), own in found.items() if each == mode), Counter())
        together[f"{mode}: pairs"], together[f"{mode}: different"] = totals(counts)
    return together


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=KINDS_OF)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--no-graphs", action="store_true", help="run CUDA's kernels one by one")
    parser.add_argument("--share", type=int, default=1, help="every n-th case alone")
    parser.add_argument("--mini", type=int, default=5, help="every n-th case of `mini` too")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.no_graphs:
        plain = mmspec_torch.backend.TorchModel.sequences
        mmspec_torch.backend.ReplayedSequences = lambda language, capture: plain
    different, table = 0, []
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("MMSPEC_CACHE", str(Path(folder) / "cache"))
        models = [*random_models(Path(folder)), ("mini", MINI, MINI_DRAFTS)]
        for backend in [given.backend] if given.backend else KINDS_OF:
            for kind in given.kinds.split(",") if given.kinds else KINDS_OF[backend]:
                found = compared(models, backend, kind, given, Path(folder))
                together = line(backend, kind, found)
                print(json.dumps(together), flush=True)  # noqa: T201
                different += int(together["on: different"])
                table += rows(backend, kind, found)
                if given.out:
                    given.out.write_text(csv_text(table), encoding="utf-8")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
