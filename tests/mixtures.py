"""Train drafts for `mini` that see and word differently, and compare mixtures with single views.

    python tests/mixtures.py --out runs/mixtures [--threads 1]

The draft `s0-w300-v600` has seed 0, 300 steps of each of `train draft`'s two stages on text, and
600 steps on images. What OUT lacks is trained and measured, so that the same command goes on where
it was interrupted. Writes `mixtures.csv` beside this file. With `--run`, the same figures of a run
of another target and draft are printed:

    python tests/mixtures.py --run runs/joined
"""

import argparse
import csv
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mmspec_bench.report.bench_run import BenchRun, read_run
from mmspec_bench.suite.metrics import Interval, block_efficiency, difference, pairs, ratio
from mmspec_bench.suite.rows import AnswerRow


class Places(Counter[tuple[bool, bool]]):
    """Number of places of answers by whether the first and the second view are right there."""

    def share(self, first: bool, second: bool) -> float:
        """The share of places at which exactly the views that are True are right."""
        return ratio(self[first, second], self.total())

    @property
    def weaker(self) -> float:
        """The share of the places with one right view that the less often right one has right."""
        alone = self[True, False], self[False, True]
        return ratio(min(alone), sum(alone))


def right_places(row: AnswerRow) -> dict[int, bool]:
    """Whether the chain's token was the target's, by place in the answer, where that is known."""
    known: dict[int, bool] = {}
    start = 0
    for round_ in row.rounds:
        known |= dict.fromkeys(range(start, start + round_.accepted), True)
        if round_.accepted < round_.drafted:
            known[start + round_.accepted] = False
        start += round_.emitted
    return {place: right for place, right in known.items() if place < start}


def compare(first: Iterable[AnswerRow], second: Iterable[AnswerRow]) -> Places:
    """Count the places of the answers that both views drafted, known of both."""
    counts = Places()
    for one, other in pairs(first, second):
        if one.token_ids == other.token_ids:
            left, right = right_places(one), right_places(other)
            counts.update((left[place], right[place]) for place in left.keys() & right.keys())
    return counts


DRAFTS = [
    *((0, words, images) for words in (100, 300, 1000) for images in (100, 300)),
    *((0, words, 600) for words in (300, 1000)),
    *((0, 1000, 1), (1, 300, 100)),
    *((seed, words, images) for seed in (1, 2) for words in (100, 1000) for images in (100, 300)),
]
"""Seed, steps on text and steps on images of the drafts."""
SHAPE = "--layers 2 --width 128 --heads 2 --ffn 384 --positions 512"
OTHER_SHAPE = "--layers 1 --width 192 --heads 3 --ffn 512 --positions 512"
GAMMA = 5
MIXTURES = ("MT", "MTC", "adaptive:MTC")
TASKS = "chart,text,general,hallucination,conversation,detail,reasoning,caption,science,spot,edit"
"""The offline suite's tasks of one and two images."""


@dataclass(frozen=True)
class Sweep:
    """The drafts and runs in one folder."""

    out: Path
    threads: int

    def draft(self, seed: int, words: int, images: int, shape: str = SHAPE) -> Path:
        """Return a draft's directory; trains it if it is not there."""
        data = (
            f"--target mini --answers target --loss kl --samples 2000 --held-out 128 --batch 2048 "
            f"--seed {seed} --answers-dir {self.out}/answers-{seed} --threads {self.threads} "
            "--every 100000"
        )
        kind = "" if shape == SHAPE else "other-"
        text = self.out / f"{kind}s{seed}-w{words}"
        both = self.out / f"{kind}s{seed}-w{words}-v{images}"
        if not (text / "finetuned" / "training.json").exists():
            _run(f"train draft --only finetuned {data} {shape} --steps {words} --out {text}")
        if not (both / "llava" / "training.json").exists():
            source = f"--only llava --from {text / 'finetuned'}"
            _run(f"train draft {source} {data} --steps {images} --out {both}")
        return both / "llava"

    def measured(self, name: str, draft: Path | str) -> BenchRun:
        """Return the run of a draft on the tasks of one and two images."""
        folder = self.out / "runs" / name
        command = (
            f"bench run --model mini --draft {draft} --suite offline --tasks {TASKS} --limit 8 "
            f"--methods M,T,{','.join(MIXTURES)} --gamma {GAMMA} --threads {self.threads} "
            f"--out {folder}"
        )
        _run(command + " --resume" * folder.exists())
        return read_run(folder)


@dataclass(frozen=True)
class Result:
    """What a draft's views and mixtures got."""

    name: str
    run: BenchRun

    @property
    def efficiency(self) -> dict[str, float]:
        """Tokens per round of every method."""
        return {name: block_efficiency(self.run.of(name)) for name in self.run.drafting}

    @property
    def best(self) -> str:
        """The better single view."""
        return max("MT", key=lambda view: self.efficiency[view])

    def gain(self, mixture: str) -> Interval:
        """The mixture against the best single view."""
        found = difference(self.run.of(mixture), self.run.of(self.best))
        assert found
        return found

    def figures(self) -> dict[str, str]:
        """The line of a table: heading and value."""
        places = compare(self.run.of("M"), self.run.of("T"))
        return {
            "draft": self.name,
            **{name: f"{value:.3f}" for name, value in self.efficiency.items()},
            "places": str(places.total()),
            "both right": f"{places.share(True, True):.3f}",
            "M alone": f"{places.share(True, False):.3f}",
            "T alone": f"{places.share(False, True):.3f}",
            "weaker's share": f"{places.weaker:.3f}",
            **{f"{name} over the best view, %": _interval(self.gain(name)) for name in MIXTURES},
        }


def results(sweep: Sweep) -> Iterator[Result]:
    """Yield every draft's result."""
    for seed, words, images in DRAFTS:
        name = f"s{seed}-w{words}-v{images}"
        yield Result(name, sweep.measured(name, sweep.draft(seed, words, images)))
    other = sweep.draft(0, 200, 200, OTHER_SHAPE)
    yield Result("one layer", sweep.measured("other", other))
    yield Result("mini-draft", sweep.measured("mini-draft", "mini-draft"))


def _interval(gain: Interval) -> str:
    low, high = 100 * (gain.low or 0), 100 * (gain.high or 0)
    return f"{100 * gain.value:+.1f} [{low:+.1f}..{high:+.1f}]"


def _run(command: str) -> None:
    subprocess.run([sys.executable, "-m", "mmspec_cli", *command.split()], check=True)


def main() -> None:
    """Train, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/mixtures"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--run", type=Path, nargs="+", help="a run by M, T, MT, MTC, adaptive:MTC")
    given = parser.parse_args()
    if given.run:
        for name, value in Result("run", read_run(*given.run)).figures().items():
            print(f"{name}: {value}")  # noqa: T201
        return
    found = list(results(Sweep(given.out, given.threads)))
    with (Path(__file__).parent / "mixtures.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, found[0].figures(), lineterminator="\n")
        table.writeheader()
        table.writerows(result.figures() for result in found)


if __name__ == "__main__":
    main()
