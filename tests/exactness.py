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
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mmspec.chat.engine import Engine, load
from mmspec.chat.plugins import load_backend
from mmspec_bench.table import csv_text
from mmspec_torch import model
from mmspec_torch.sequence.executor import Executor
from support.exactness_cases import Case, cases, compare_all
from support.factory import tiny_pair
from support.factory_fit import fit_head
from support.factory_heads import KINDS as HEADS
from support.factory_heads import tiny_head
from support.factory_qwen import MAKERS, ROPES

MINI = Path(__file__).parent.parent / "models" / "mmspec_models" / "mini"
KINDS_OF = {
    "torch": ("float32", "bfloat16", "float16", "int8", "int4"),
    "mlx": ("float32", "bfloat16", "float16", "4 bits", "8 bits"),
}
"""The number types of each backend that the table shows."""
MODES = ("on", "off")
VIEWS = ("M", "T", "C", "P", "MT", "MTC", "MTCP", "lookup")
BUNDLED = tuple(kind for kind in HEADS if (MINI.parent / f"mini-{kind}").exists())
"""Heads of `mini`."""
TINY, LENGTH = 3, {"mini": 24}
"""Random LLaVAs; tokens of an answer, else 20."""
TARGETS = TINY + len(MAKERS)
"""Random targets, to each of which other cases fall."""


class Checkpoints:
    """Targets and drafts on disk, quantized for MLX where a number type asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def llava(self, seed: int) -> tuple[Path, dict[str, Path]]:
        """A random target, and its draft and heads by drafting, made once."""
        place = self._folder / f"llava {seed}"
        if not place.exists():
            tiny_pair(place, seed=seed)
            self._make_heads(place, seed)
        return self._models(place)

    def qwen(self, family: str) -> tuple[Path, dict[str, Path]]:
        """The same of a `model_type` of Qwen's."""
        place = self._folder / family
        if not place.exists():
            # MLX's float32 products of grouped queries are not exact on a CPU.
            MAKERS[family](place / "target", seed=1, key_value_heads=4)
            MAKERS[family](place / "draft", seed=2, key_value_heads=4, layers=2)
            self._make_heads(place, 1, rope_scaling=ROPES[family])
        return self._models(place)

    def _make_heads(self, place: Path, seed: int, **eagle3: object) -> None:
        for kind in HEADS:
            given = eagle3 if kind == "eagle3" else {}
            fit_head(tiny_head(place / kind, kind, seed=seed, **given), place / "target")

    def _models(self, place: Path) -> tuple[Path, dict[str, Path]]:
        return place / "target", {"": place / "draft", **{kind: place / kind for kind in HEADS}}

    def in_bits(self, source: Path, kind: str) -> Path:
        """The checkpoint for `kind`: for `4 bits` and `8 bits` a copy in MLX's format."""
        if not kind.endswith(" bits"):
            return source
        place = self._folder / kind / str(source.resolve()).replace("/", "_")
        if not place.exists():
            place.parent.mkdir(exist_ok=True)
            backend = load_backend("mlx")
            backend.quantize(source, place, bits=int(kind.split()[0]), group_size=64)
        return place


def opened(backend: str, device: str, kind: str, target: str, draft: str) -> Engine:
    """An engine in a number type."""
    named = {"dtype": "auto" if kind.endswith(" bits") or kind.startswith("int") else kind}
    if kind.startswith("int"):
        named = {"dtype": "bfloat16", "quantize": kind}
    return load(target, draft, backend=backend, device=device, **named)


def engines(
    checkpoints: Checkpoints, backend: str, kind: str, given: argparse.Namespace
) -> Iterator[tuple[str, dict[str, Engine], list[Case]]]:
    """The engines by drafting, and the cases, of each target."""
    opening = partial(opened, backend, given.device, kind)
    every = cases([*VIEWS, *HEADS])
    random = [("LLaVA", *checkpoints.llava(seed)) for seed in range(TINY)]
    random += [(each, *checkpoints.qwen(each)) for each in MAKERS]
    for number, (family, target, drafts) in enumerate(random):
        place = str(checkpoints.in_bits(target, kind))
        models = {word: opening(place, str(draft)) for word, draft in drafts.items()}
        yield family, models, every[number::TARGETS]
    place = str(checkpoints.in_bits(MINI, kind))
    names = {"": "mini-draft", **{word: f"mini-{word}" for word in BUNDLED}}
    models = {word: opening(place, name) for word, name in names.items()}
    some = [case for case in every if case.drafting in {*VIEWS, *BUNDLED}]
    yield "mini", models, some[:: given.mini]


Found = dict[tuple[str, str], dict[Case, list[bool]]]
"""Whether the answers of each case are equal, by family and mode of exact decoding."""


def compared(checkpoints: Checkpoints, backend: str, kind: str, given: argparse.Namespace) -> Found:
    """The pairs of a number type; each case falls to one target of a family."""
    found: Found = defaultdict(dict)
    for family, models, every in engines(checkpoints, backend, kind, given):
        for mode in MODES:
            pairs = compare_all(models, every[:: given.share], mode, LENGTH.get(family, 20))
            found[family, mode] |= pairs
            words = "{1} of {0} differ".format(*count(pairs))
            sys.stderr.write(f"{backend} {kind} {family}, exact {mode}: {words}\n")
    return found


def count(pairs: dict[Case, list[bool]]) -> tuple[int, int]:
    """Numbers of pairs and of those that differ."""
    every = [equal for answers in pairs.values() for equal in answers]
    return len(every), every.count(False)


def rows(backend: str, kind: str, found: Found) -> Iterator[dict[str, object]]:
    """Rows of the table, by family, mode and drafting."""
    for (family, mode), pairs in found.items():
        for drafting in dict.fromkeys(case.drafting for case in pairs):
            own = {case: pairs[case] for case in pairs if case.drafting == drafting}
            total, different = count(own)
            yield {
                "family": family,
                "backend": backend,
                "type": kind,
                "exact": mode,
                "drafting": drafting,
                "pairs": total,
                "equal": total - different,
            }


def line(backend: str, kind: str, found: Found) -> dict[str, str | int]:
    """Pairs of all families together and those that differ, by mode of exact decoding."""
    totals: dict[str, str | int] = {"backend": backend, "kind": kind}
    for mode in MODES:
        counts = [count(pairs) for (_, own), pairs in found.items() if own == mode]
        totals[f"{mode}: pairs"], totals[f"{mode}: different"] = map(sum, zip(*counts, strict=True))
    return totals


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
        model.ReplayedExecutor = lambda language, capture: Executor(language)
    different, table = 0, []
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("MMSPEC_CACHE", str(Path(folder) / "cache"))
        checkpoints = Checkpoints(Path(folder))
        for backend in [given.backend] if given.backend else KINDS_OF:
            for kind in given.kinds.split(",") if given.kinds else KINDS_OF[backend]:
                found = compared(checkpoints, backend, kind, given)
                totals = line(backend, kind, found)
                print(json.dumps(totals), flush=True)  # noqa: T201
                different += int(totals.get("on: different", 0))
                table += rows(backend, kind, found)
                if given.out:
                    given.out.write_text(csv_text(table), encoding="utf-8")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
