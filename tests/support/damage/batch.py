"""Runs many damaged files of one subject, in processes that may hang or abort."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from support.commands import processes
from support.damage.process import Case, begin, outcome
from support.damage.subjects import SUBJECTS

PATIENCE = 180.0
"""Seconds after which a case hangs, also on a machine that is very busy."""


def prepare(folder: Path, name: str) -> None:
    """Write the good files of a subject, unless they are there."""
    source, make = folder / name / "source", SUBJECTS[name].make
    if make and not source.exists():
        source.mkdir(parents=True)
        make(source)


def run(
    folder: Path, names: Sequence[str], backend: str = "none", *, count: int, seed: int = 0
) -> list[Case]:
    """Damage and use `count` files of the subjects in turn; a case that ends its process counts."""
    cases: list[Case] = []
    for name in names:
        prepare(folder, name)
    while len(cases) < count:
        pool = ProcessPoolExecutor(1, processes, begin, (folder, names, backend))
        pool.submit(int).result()  # so far the files are good: what fails is no case
        try:
            while len(cases) < count:
                name = names[len(cases) % len(names)]
                case = f"{seed} {name} {len(cases)}"
                cases.append(pool.submit(outcome, folder, name, case, backend).result(PATIENCE))
        except (BrokenProcessPool, TimeoutError) as error:
            cases.append(Case(case, "hang or abort", repr(error)))
        finally:
            for process in list((pool._processes or {}).values()):
                process.kill()
            pool.shutdown()
    return cases
