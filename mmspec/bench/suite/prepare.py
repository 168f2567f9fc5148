"""Everything before the first answer of a run: samples, methods, folder, costs, warm-up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmspec.bench.suite.arms import open_arm
from mmspec.bench.suite.items import Item, shard
from mmspec.bench.suite.measuring import measure_costs
from mmspec.bench.suite.methods import read_method
from mmspec.bench.suite.rows import PROVENANCE, ROWS, Row
from mmspec.bench.suite.runner import Runner
from mmspec.bench.suite.settings import Settings, amend, begin, described, skip
from mmspec.bench.suite.sources import items
from mmspec.engine import Engine
from mmspec.errors import MmspecError, UsageError
from mmspec.jsonfile import read_json
from mmspec.options import Options

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that can start."""

    runner: Runner
    items: Sequence[tuple[int, Item]]
    """This shard's, those that are done included."""
    done: Sequence[Row]

    def run(self) -> Iterator[list[Row]]:
        """Answer what is left, yielding each sample's rows once they are on the disk."""
        return self.runner.run(self.items, self.done)


def prepare(
    engine: Engine,
    settings: Settings,
    out: Path,
    *,
    resume: bool,
    skipped: Say | None,
    progress: Say,
) -> Prepared:
    """Open `out`, measure costs where that was not done yet, and warm every method up.

    skipped: told of each broken sample; None makes it an error.  Raises UsageError for a method
    that the models cannot do, a suite that is none, or another run in `out`.
    """
    options = Options(gamma=settings.gamma, max_new_tokens=settings.max_new_tokens)
    arms = [open_arm(read_method(name), engine, options) for name in settings.methods]
    progress("reading the suite")
    mine = shard(_items(engine, settings), settings.shard)
    progress("reading the models' files")
    done = begin(out, described(settings, engine), resume=resume)
    runner = Runner(arms, out / ROWS, None if skipped is None else _recording(out, skipped))
    if not read_json(out / PROVENANCE)["costs"]:
        progress("measuring what single forwards cost")
        measured = measure_costs(engine, [item for _, item in mine], arms)
        amend(out, costs=[each.as_dict() for each in measured])
    progress("warming up")
    _warm_up(runner, [item for _, item in mine])
    return Prepared(runner, mine, runner.whole(done, mine))


def _items(engine: Engine, settings: Settings) -> list[Item]:
    vision = engine.target.model.config.vision
    if vision is None:
        raise UsageError(f"{engine.target.name} is text-only: a suite asks about images")
    return items(
        settings.suite,
        vision.image_size,
        limit=settings.limit,
        turns=settings.turns,
        tasks=settings.tasks,
        seed=settings.seed,
    )


def _recording(out: Path, skipped: Say) -> Callable[[Item, MmspecError], None]:
    def record(item: Item, error: MmspecError) -> None:
        skip(out, item.name, str(error))
        skipped(f"left out {item.name}: {error}")

    return record


def _warm_up(runner: Runner, every: Sequence[Item]) -> None:
    """With the first sample that is not broken; the run itself tells of those that are."""
    for item in every:
        try:
            runner.warm_up(item)
        except MmspecError:
            continue
        return
