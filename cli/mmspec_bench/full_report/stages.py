"""The stages of the report in their order, and about how long each takes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Any

from mmspec.checkpoints.config import read_config
from mmspec.decoding.block_attention import BLOCK
from mmspec.draft_length.calibration_file import CONTEXTS, ROWS
from mmspec.exactness.probe import POSITIONS
from mmspec_bench import Progress
from mmspec_bench.compare.runner import run_script
from mmspec_bench.full_report import measurements as measured
from mmspec_bench.full_report.measurements import IMAGES, OPTIONS, PROMPTS, REPEATS, WAYS
from mmspec_bench.full_report.pair import Pair
from mmspec_bench.weight_memory import weight_bytes

Results = Mapping[str, Mapping[str, Any]]
"""What stages that are over left in the report, by name."""

READ_BYTES, USE_BYTES = 5e8, 1e10
"""Bytes of weights per second in loading and in a forward, before they were measured here."""
LEAST_LOADING = 3.0
"""Seconds of loading a small pair."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the report."""

    kind: str
    backend: str
    measure: Callable[[], dict[str, Any]]
    loads: int
    """How often a pair is loaded."""
    forwards: int
    """About how many plain tokens could be decoded in the time of the rest."""
    detail: str = ""

    @property
    def name(self) -> str:
        """The stage's name in the report, such as 'exact mlx bfloat16'."""
        return " ".join(filter(None, (self.kind, self.backend, self.detail)))


def stages_of(
    pair: Pair, backends: Sequence[str], mlx_vlm: str | None, progress: Progress
) -> list[Stage]:
    """All stages, the short ones of every backend first."""
    stages = [stage for backend in backends for stage in _short(pair, backend, progress)]
    if "mlx" in backends:
        peer = partial(measured.against_mlx_vlm, pair, mlx_vlm, progress, run_script)
        stages.append(Stage("peers", "mlx", peer, 3, 3 * _answers(1)))
    if len(backends) > 1:
        parity = partial(measured.compared, pair, backends)
        stages.append(Stage("parity", backends[-1], parity, 1 + len(backends), _answers(6)))
    return stages + [stage for backend in backends for stage in _exact(pair, backend, progress)]


def _short(pair: Pair, backend: str, progress: Progress) -> list[Stage]:
    timed = 4 * (REPEATS * PROMPTS + 3) * OPTIONS.max_new_tokens
    curves = (measured.COST_REPEATS + 1) * len(CONTEXTS) * 3 * len(ROWS)
    rows = 2 * curves + _probe_forwards(pair, backend)
    return [
        Stage("start", backend, partial(measured.start, pair, backend), 1, 200 + 20 * len(IMAGES)),
        Stage("check", backend, partial(measured.checked, pair, backend), 1, _answers(2)),
        Stage("speed", backend, partial(measured.speeds, pair, backend, progress), 1, timed),
        Stage("costs", backend, partial(measured.costs, pair, backend, progress), 1, rows),
    ]


def _exact(pair: Pair, backend: str, progress: Progress) -> list[Stage]:
    forwards = _answers(8) + _probe_forwards(pair, backend)
    forwards += 2 * len(WAYS) * (REPEATS * PROMPTS + 1) * OPTIONS.max_new_tokens
    return [
        Stage(
            "exact",
            backend,
            partial(measured.exactness, pair, backend, kind, progress),
            1,
            forwards,
            kind.name,
        )
        for kind in pair.types(backend)
    ]


def _answers(times: int) -> int:
    return times * PROMPTS * OPTIONS.max_new_tokens


def _probe_forwards(pair: Pair, backend: str) -> int:
    """About the forwards of a probe that finds exact rows after some others."""
    positions = read_config(pair.model[backend]).text.max_position_embeddings
    return 2000 + 20 * min(positions, POSITIONS) // BLOCK


def about_seconds(stage: Stage, pair: Pair, results: Results) -> float:
    """About how long a stage takes.

    As long as others of its kind and backend took; without any, by the times of its backend's first
    stage, or by the size of the weights.
    """
    beginning = f"{stage.kind} {stage.backend}"
    alike = [each for name, each in results.items() if name.startswith(beginning)]
    seconds = [each["seconds"] for each in alike if each["ok"] and "skipped" not in each]
    if seconds:
        return float(mean(seconds))
    loading, token = _pace(stage.backend, pair, results)
    return stage.loads * loading + stage.forwards * token


def _pace(backend: str, pair: Pair, results: Results) -> tuple[float, float]:
    """Seconds of loading the pair and of a plain token."""
    first = results.get(f"start {backend}", {}).get("result", {})
    if "token_seconds" in first:
        return first["load_seconds"], first["token_seconds"]
    size = weight_bytes(pair.model[backend], "auto", packed=True)
    return LEAST_LOADING + size / READ_BYTES, size / USE_BYTES
