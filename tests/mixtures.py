"""Train drafts for `mini` that see and word differently, and compare mixtures with single views.

    python tests/mixtures.py --out runs/mixtures [--threads 1]

The draft `s0-w300-v600` has seed 0, 300 steps of each of `train draft`'s two stages on text, and
600 steps on images. What OUT lacks is trained and measured, so that the same command goes on where
it was interrupted. Writes `mixtures.csv` beside this file. Seed 0 gives the curve below; drafts of
other seeds and shapes test it.
"""

import argparse
import csv
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path

import numpy as np

from mmspec_bench.report.bench_run import BenchRun, read_run
from mmspec_bench.suite.confidence import Interval, difference
from mmspec_bench.suite.metrics import block_efficiency, pairs, ratio
from mmspec_bench.suite.rows import AnswerRow

EVEN, CURVE = 0.54, 1.62
"""The curve r = EVEN + CURVE · (1/2 - s)²: of the places that one view alone has right, the share r
that the even mixture has right, by the weaker view's share s. Measured on drafts of `mini`."""

BREAK_EVEN = 0.5 - (1 - sqrt(1 - 4 * CURVE * (EVEN - 0.5))) / (2 * CURVE)
"""The weaker view's share above which r > 1 - s: the mixture beats the better view."""


@dataclass(slots=True)
class ViewPair:
    """Counts of the places of answers by which of two views is right there."""

    places: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    """Number of places by whether the first and the second view are right."""
    mixed: Counter[bool] = field(default_factory=Counter)
    """Number of places that one view alone has right, by whether their mixture is right there."""

    def share(self, first: bool, second: bool) -> float:
        """The share of places at which exactly the views that are True are right."""
        return ratio(self.places[first, second], self.places.total())

    @property
    def lone(self) -> float:
        """The share of places at which exactly one view is right."""
        return self.share(True, False) + self.share(False, True)

    @property
    def weaker(self) -> float:
        """The share of the places with one right view that the less often right one has right."""
        return ratio(min(self.share(True, False), self.share(False, True)), self.lone)

    @property
    def recovered(self) -> float | None:
        """The share of the places with one right view at which their mixture is right."""
        return ratio(self.mixed[True], self.mixed.total()) if self.mixed else None

    def expected_gain(self, draft_length: int) -> float:
        """The even mixture's tokens per round over the better view's, less 1, by that curve.

        As if places were right independently: tokens per round are then 1 + a + … + a^draft_length.
        """
        shares = EVEN + CURVE * (0.5 - self.weaker) ** 2, 1 - self.weaker
        mixed, single = (
            sum((self.share(True, True) + part * self.lone) ** n for n in range(draft_length + 1))
            for part in shares
        )
        return mixed / single - 1


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


def compare(
    first: Iterable[AnswerRow], second: Iterable[AnswerRow], mixture: Iterable[AnswerRow] = ()
) -> ViewPair:
    """Count the places of the answers that both views drafted, known of both."""
    counts, mixed = ViewPair(), {row.key: row for row in mixture}
    for one, other in pairs(first, second):
        if one.token_ids != other.token_ids:
            continue
        left, right = right_places(one), right_places(other)
        both = right_places(mixed[one.key]) if one.key in mixed else {}
        for place in left.keys() & right.keys():
            counts.places[left[place], right[place]] += 1
            if left[place] != right[place] and place in both:
                counts.mixed[both[place]] += 1
    return counts


GRID = [
    *((0, words, images) for words in (100, 300, 1000) for images in (100, 300)),
    *((0, words, 600) for words in (300, 1000)),
    (0, 1000, 1),
]
"""Seed, steps on text and steps on images of the drafts from which the rule comes."""
OTHER_SEEDS = [
    (1, 300, 100),
    *((seed, words, images) for seed in (1, 2) for words in (100, 1000) for images in (100, 300)),
]
"""The same of drafts that test it: the grid's corners, and the most even draft but one, again."""
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
    kept_out: bool

    @property
    def efficiency(self) -> dict[str, float]:
        """Tokens per round of every method."""
        return {name: block_efficiency(self.run.of(name)) for name in self.run.drafting}

    @property
    def best(self) -> str:
        """The better single view."""
        return max("MT", key=lambda view: self.efficiency[view])

    @property
    def pair(self) -> ViewPair:
        """Where M and T are right, and MT where one of them is."""
        return compare(*(self.run.of(name) for name in ("M", "T", "MT")))

    def gain(self, mixture: str) -> Interval:
        """The mixture against the best single view."""
        found = difference(self.run.of(mixture), self.run.of(self.best))
        assert found
        return found

    def figures(self) -> dict[str, str]:
        """The line of a table: heading and value."""
        pair = self.pair
        gains = {name: self.gain(name) for name in MIXTURES}
        return {
            "draft": self.name + " (kept out)" * self.kept_out,
            **{name: f"{value:.3f}" for name, value in self.efficiency.items()},
            "places": str(pair.places.total()),
            "both right": f"{pair.share(True, True):.3f}",
            "M alone": f"{pair.share(True, False):.3f}",
            "T alone": f"{pair.share(False, True):.3f}",
            "weaker's share": f"{pair.weaker:.3f}",
            "recovered": f"{pair.recovered or 0:.3f}",
            "expected of MT, %": f"{100 * pair.expected_gain(GAMMA):+.1f}",
            **{f"{name} over the best view, %": _interval(gains[name]) for name in MIXTURES},
        }


def results(sweep: Sweep) -> Iterator[Result]:
    """Yield every draft's result, those that are kept out last."""
    for seed, words, images in GRID + OTHER_SEEDS:
        name = f"s{seed}-w{words}-v{images}"
        run = sweep.measured(name, sweep.draft(seed, words, images))
        yield Result(name, run, kept_out=seed > 0)
    other = sweep.draft(0, 200, 200, OTHER_SHAPE)
    yield Result("one layer", sweep.measured("other", other), kept_out=True)
    yield Result("mini-draft", sweep.measured("mini-draft", "mini-draft"), kept_out=True)


def _interval(gain: Interval) -> str:
    low, high = 100 * (gain.low or 0), 100 * (gain.high or 0)
    return f"{100 * gain.value:+.1f} [{low:+.1f}..{high:+.1f}]"


def _run(command: str) -> None:
    subprocess.run([sys.executable, "-m", "mmspec_cli", *command.split()], check=True)


def main() -> None:
    """Train, measure, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    found = list(results(Sweep(given.out, given.threads)))
    with (Path(__file__).parent / "mixtures.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, found[0].figures(), lineterminator="\n")
        table.writeheader()
        table.writerows(result.figures() for result in found)
    known = [result.pair for result in found if not result.kept_out]
    distances = [(0.5 - pair.weaker) ** 2 for pair in known]
    weights = np.sqrt([pair.mixed.total() for pair in known])
    curve, even = np.polyfit(distances, [pair.recovered for pair in known], 1, w=weights)
    print(f"EVEN, CURVE = {even:.3f}, {curve:.3f}; the gain begins at {BREAK_EVEN:.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
