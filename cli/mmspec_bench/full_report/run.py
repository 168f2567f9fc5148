"""Runs the stages that the report's file lacks, and says how long each takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from mmspec.chat.calibration import shape_digest
from mmspec.chat.plugins import installed_backends, load_backend
from mmspec.checkpoints.hub import pull, resolve
from mmspec.diagnostics.doctor import examine
from mmspec.diagnostics.provenance import provenance
from mmspec.ground.errors import BackendError, HubError
from mmspec_bench import Progress
from mmspec_bench.full_report.pair import Inapplicable, Pair
from mmspec_bench.full_report.report_file import FORMAT, ReportFile, passed
from mmspec_bench.full_report.stages import Stage, about_seconds, stages_of

MODEL, DRAFT = "llava-1.5-7b", "lvlm68m"
REASON = 500
"""Characters of the longest error in the report."""
HERE = ("command", "date")
"""What provenance has that results do not depend on."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Where lines for the user go."""

    progress: Progress
    """Temporary ones."""
    note: Callable[[str], None]


def full_report(
    model: str,
    draft: str,
    out: Path,
    lines: Lines,
    mlx_vlm: str | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Fetch a pair, then check, measure and compare it on every installed backend.

    Writes the report to `out` before and after every stage; a second run does not repeat what is in
    that file, unless models or versions changed. The entry of a failed stage is its error.
    mlx_vlm: the Python of mlx-vlm's environment.  threads: of the CPU, as for `load`.

    Returns the report with the command's `exit_code`. Raises HubError if the pair is not on this
    machine and cannot be fetched, WriteError if the file cannot be written.
    """
    backends = installed_backends()
    if not backends:
        raise BackendError('no backend is installed: run pip install "mmspec[mlx]" on a Mac')
    for backend in backends:
        load_backend(backend).set_threads(threads)
    models, drafts = (
        {backend: _fetched(name, backend, lines.progress) for backend in backends}
        for name in (model, draft)
    )
    pair = Pair(models, drafts, threads, lines.progress)
    file = ReportFile(out, _key(model, draft, pair), {"examination": examine()})
    stages = stages_of(pair, backends, mlx_vlm, lines.progress)
    if file.resume():
        here = sum(file.is_over(stage.name) for stage in stages)
        lines.note(f"{here} of {len(stages)} stages are in {out} already")
    _run(stages, pair, file, lines)
    return file.as_dict()


def _fetched(name: str, backend: str, progress: Progress) -> Path:
    try:
        return resolve(name, backend)
    except HubError:
        progress(f"pulling {name} for {backend}")
        return pull(name, backend, note=progress)


def _key(model: str, draft: str, pair: Pair) -> dict[str, Any]:
    """The models and versions, the machine and its backends."""
    whole = provenance([load_backend(backend) for backend in pair.model])
    places = {"model": pair.model, "draft": pair.draft}
    digests = {
        part: {backend: shape_digest(path) for backend, path in paths.items()}
        for part, paths in places.items()
    }
    names = {"format": FORMAT, "model": model, "draft": draft, "checkpoints": digests}
    return names | {part: value for part, value in whole.items() if part not in HERE}


def _run(stages: list[Stage], pair: Pair, file: ReportFile, lines: Lines) -> None:
    """Run what is not over; last those that were started before and ended the whole run."""
    left = [stage for stage in stages if not file.is_over(stage.name)]
    left.sort(key=lambda stage: file.starts.get(stage.name, 0))
    while left:
        stage = left[0]
        about = [about_seconds(each, pair, file.stages) for each in left]
        number = len(stages) - len(left) + 1
        lines.note(
            f"{number} of {len(stages)}: {stage.name}, about {duration(about[0])}; all that is "
            f"left about {duration(sum(about))}"
        )
        file.start(stage.name)
        outcome = _attempt(stage) | {"about_seconds": round(about[0], 1)}
        file.end(stage.name, outcome)
        lines.note(f"{stage.name}: {outcome_line(outcome)}")
        left = left[1:]


def _attempt(stage: Stage) -> dict[str, Any]:
    began, started = datetime.now(UTC).isoformat(timespec="seconds"), perf_counter()
    outcome: dict[str, Any]
    try:
        outcome = {"ok": True, "result": stage.measure()}
    except Inapplicable as error:
        outcome = {"ok": True, "result": {}, "skipped": str(error)[:REASON]}
    except Exception as error:  # noqa: BLE001 - whatever fails on unknown hardware is a finding
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        outcome = {"ok": False, "error": reason[:REASON]}
    return outcome | {"date": began, "seconds": perf_counter() - started}


def outcome_line(stage: Mapping[str, Any]) -> str:
    """How a stage ended, and how long it took."""
    seconds = duration(stage["seconds"])
    if not stage["ok"]:
        return f"{stage['error']} (after {seconds})"
    if "skipped" in stage:
        return f"skipped: {stage['skipped']}"
    return f"{'passed' if passed(stage) else 'FAILED'} in {seconds}"


def duration(seconds: float) -> str:
    """A time in seconds or minutes, such as '8 s' or '12 min'."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
