"""The finding about one model on one machine: exact rows and their price, kept in a file."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from time import perf_counter
from typing import Annotated

from mmspec.decoding.contract import Model, Segment, Target
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.exactness.probe import find_exact_rows
from mmspec.ground.errors import CheckpointError, UsageError, WriteError
from mmspec.ground.json_file import Range
from mmspec.ground.measurement_file import MeasurementFile
from mmspec.ground.progress import Notice, Progress

MODES = ("auto", "on", "off")
"""Values of `--exact`."""
DEAR = 1.1
"""Price of a plain token above which `auto` decodes without exact rows."""
LEAST = ExactRows(1, 1)
"""The cheapest exact rows, whose price is a lower bound for all."""
CONTEXTS = (64, 512, 2048)
"""Positions before the tokens that are timed."""
TOKENS = 15
"""Tokens that are timed each way, in turns, after each context."""
WARM_UP = 3
"""Tokens each way that are not timed."""
PROBE = 8
"""Time of the probe, roughly, divided by that of measuring a price."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of a model's exact decoding on this machine."""

    price: Annotated[float, Range(1e-6, 1e6)]
    """Time of a plain token in exact forwards, divided by that in ordinary ones."""
    is_probed: bool = False
    """False if the price alone was measured, because `auto` would not pay it."""
    rows: ExactRows | None = None
    """The rows that the probe found exact; None if it found none, or has not run."""

    def suffices(self, mode: str) -> bool:
        """True if a mode of `--exact` needs no probe: it has run, or `auto` would not pay."""
        return self.is_probed or (mode == "auto" and self.price > DEAR)

    def rows_for(self, mode: str) -> ExactRows | None:
        """The rows to decode with in a mode of `--exact`; None to decode without."""
        return self.rows if mode == "on" or self.price <= DEAR else None

    def line(self) -> str:
        """One line for reports."""
        price = f"a plain token costs {self.price:.2f} times as much"
        if self.is_probed and self.rows is None:
            return f"no number of rows is exact ({price})"
        if self.rows and self.price <= DEAR:
            return f"on: {self.rows.line()}; {price}"
        possible = self.rows.line() if self.rows else "tried once it is asked for"
        return f"off: {price}, and auto allows {DEAR:g}; with --exact on: {possible}"


FindingFile = MeasurementFile[Finding]
"""The file of a finding about one target, device, type and version of the backend."""


def exact_rows(
    model: Model,
    mode: str,
    file: FindingFile,
    name: str,
    progress: Progress,
    *,
    measure: bool = False,
) -> ExactRows | None:
    """The rows with which `model` decodes in a mode of `--exact`; None for ordinary forwards.

    'on' measures what the file does not say yet, which takes seconds to minutes, and writes it
    there; 'auto' does so if `measure` is set, and otherwise costs nothing: what is not known is
    off.  Raises UsageError if the mode is 'on' and no number of rows is exact.
    """
    if mode == "off":
        return None
    finding: Finding | None = None
    with suppress(CheckpointError):  # what a damaged file said is found out again
        finding = file.read()
    if mode == "auto" and not measure:
        return finding.rows_for(mode) if finding else None
    if finding is None or not finding.suffices(mode):
        finding = _measure(model, mode, name, progress)
        _keep(file, finding, progress)
    if mode == "on" and finding.rows is None:
        raise UsageError(
            f"`exact=on`: {name} in {model.dtype} on {model.device} gives a token other bits beside"
            " other tokens, with every number of rows that was tried: use auto or off"
        )
    return finding.rows_for(mode)


def _measure(model: Model, mode: str, name: str, progress: Progress) -> Finding:
    """The price of a plain token, then, unless it suffices, what the probe finds."""
    work = f"measuring once whether this machine can decode {name} exactly"
    progress(work)
    start = perf_counter()
    finding = Finding(price_of(model, LEAST, DEAR if mode == "auto" else inf))
    if finding.suffices(mode):
        return finding
    seconds = PROBE * (perf_counter() - start)
    about = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
    progress(Notice(f"{work}: about {about}; `exact=off` decodes at once"))
    rows = find_exact_rows(model)
    price = price_of(model, rows) if rows else finding.price
    return replace(finding, price=price, is_probed=True, rows=rows)


def _keep(file: FindingFile, finding: Finding, progress: Progress) -> None:
    try:
        file.write(finding)
    except WriteError as error:
        again = "the next process measures it again; MMSPEC_CACHE names another folder"
        progress(Notice(f"what was measured of exact decoding is not kept ({error}): {again}"))


def price_of(model: Model, rows: ExactRows, enough: float = inf) -> float:
    """The time of a plain token in exact forwards, divided by that in ordinary ones.

    The highest of the prices after CONTEXTS, as far as the model has positions, or the first above
    `enough`.
    """
    most = model.config.text.max_position_embeddings - TOKENS - WARM_UP - 1
    targets = [model.open_target(GREEDY, way) for way in (None, rows)]
    price = 0.0
    for context in sorted({min(context, most) for context in CONTEXTS}):
        price = max(price, _price_after(targets, context))
        if price > enough:
            break
    return price


def _price_after(targets: Sequence[Target], context: int) -> float:
    """The price after `context` positions; targets: the ordinary one, then the exact one."""
    for target in targets:
        target.rewind(min(target.length, context))
        target.extend(Segment([[1] * (context - target.length)]))
    seconds = [[_token_seconds(target) for target in targets] for _ in range(WARM_UP + TOKENS)]
    # The time that a quarter of the tokens stay below: other programs only make them slower.
    ways = zip(*seconds[WARM_UP:], strict=True)
    ordinary, exact = (float(sorted(way)[TOKENS // 4]) for way in ways)
    return exact / ordinary


def _token_seconds(target: Target) -> float:
    start = perf_counter()
    target.verify(None, NO_NOISE)
    target.commit((), 1)
    return perf_counter() - start
