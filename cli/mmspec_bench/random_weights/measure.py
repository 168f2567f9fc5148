"""Measures costs of forwards on random weights, relative to the bandwidth bound."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from mmspec.chat.engine import Engine, load
from mmspec.chat.loaded_model import LoadedHead
from mmspec.chat.plugins import load_head
from mmspec.decoding.exact_rows import ExactFields
from mmspec.diagnostics.prompts import Prompt, user_prompt
from mmspec.diagnostics.provenance import provenance
from mmspec.diagnostics.single_turn import prefilled_target
from mmspec.prompt.images import Picture
from mmspec_bench import Progress
from mmspec_bench.measure.costs import branch_draftings, median_seconds, open_beside, step_seconds
from mmspec_bench.measure.exact_price import ExactPrice, exact_prices
from mmspec_bench.prompts import world_prompts
from mmspec_bench.random_weights.bandwidth_bound import Cost, copy_bandwidth, head_bytes, step_bytes
from mmspec_bench.random_weights.checkpoints import Checkpoints

ROWS = (1, 2, 4, 6, 8, 16, 32, 64)
"""Numbers of rows of the target forwards that are timed."""
IMAGES = (1, 2, 5)
"""Numbers of images in the prompts whose prefill is timed."""
GAMMA = 5
HEAD = "msd"
QUESTION = "What is the difference between these pictures, and what do they have in common?"


@dataclass(frozen=True, slots=True)
class Prefill:
    """Median seconds of the target's prefill of a prompt, without its images' features."""

    positions: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RandomWeightsReport(ExactFields):
    """Median seconds of forwards; every timed call starts and ends with no work pending.

    The exact rows are those of `prices`; all other forwards are ordinary.
    """

    checkpoint: str
    device: str
    dtype: str
    quantize: str
    gamma: int
    positions: int
    """Positions in the target's cache, for one image and a question."""
    repeats: int
    bandwidth: float
    """Bytes per second of a copy, counting reads and writes."""
    verify: dict[int, Cost]
    """Cost of a target forward by its number of rows; one row is plain decoding."""
    draft: dict[str, Cost]
    """Cost of a drafted token by drafting: one letter per branch, or msd for the head."""
    prefill: dict[int, Prefill]
    """Times of a prompt's prefill, by the number of images in the prompt."""
    vision: float
    """Seconds that the vision tower takes for one image."""
    prices: list[ExactPrice]
    """What exact decoding costs; empty unless it was asked for."""
    peak_memory_bytes: int
    provenance: dict[str, Any]

    @property
    def ratios(self) -> dict[str, float]:
        """Ratios of seconds, each named by its dividend and its divisor."""
        branches = sorted(set(self.draft) - {HEAD}, key=len)
        step, one, many = self.verify[1], self.draft[branches[0]], self.draft[branches[-1]]
        return {
            "bound / plain step": step.bound(self.bandwidth) / step.seconds,
            f"{self.gamma + 1} rows / 1": self.verify[self.gamma + 1].seconds / step.seconds,
            "draft step / plain step": one.seconds / step.seconds,
            f"{len(branches[-1])} branches / 1": many.seconds / one.seconds,
            "head step / plain step": self.draft[HEAD].seconds / step.seconds,
        }

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON-serializable object."""
        bounds = {"verify": self._bounds(self.verify), "draft": self._bounds(self.draft)}
        return asdict(self) | {"bounds": bounds, "ratios": self.ratios}

    def _bounds(self, costs: Mapping[Any, Cost]) -> dict[str, float]:
        return {str(key): cost.bound(self.bandwidth) for key, cost in costs.items()}


def measure(
    checkpoints: Checkpoints,
    repeats: int,
    progress: Progress,
    *,
    priced: bool = False,
    **options: Any,
) -> RandomWeightsReport:
    """Load the checkpoints and time every forward; `options` as for `mmspec.chat.engine.load`.

    priced: also time forwards with exact rows and without, in turns.
    """
    progress("loading")
    engine = load(str(checkpoints.target), str(checkpoints.draft), **options, progress=progress)
    model = engine.target.model
    prompts = {count: _prompt(engine, count) for count in IMAGES}
    engine.backend.reset_peak_memory()
    progress("copying")
    bandwidth = copy_bandwidth(engine)
    progress("verifying")
    positions = prefilled_target(engine, prompts[1].message).length
    bytes_read = step_bytes(model.config, model.dtype, positions, model.quantize)
    seconds, _ = step_seconds(engine, prompts[1], ROWS, (), repeats)
    engines = dict.fromkeys(branch_draftings(engine), engine)
    engines[HEAD] = _with_head(engine, checkpoints)
    return RandomWeightsReport(
        checkpoint=checkpoints.name,
        device=model.device,
        dtype=model.dtype,
        quantize=model.quantize,
        gamma=GAMMA,
        positions=positions,
        repeats=repeats,
        bandwidth=bandwidth,
        verify={rows: Cost(each, bytes_read) for rows, each in zip(ROWS, seconds, strict=True)},
        draft={
            drafting: _drafted_token(using, prompts[1], drafting, repeats, progress)
            for drafting, using in engines.items()
        },
        prefill={
            count: _prefill(engine, prompt, repeats, progress) for count, prompt in prompts.items()
        },
        vision=_vision(engine, prompts[1].message.pictures[0], repeats),
        prices=exact_prices(engine, prompts[1], repeats) if priced else [],
        peak_memory_bytes=engine.backend.peak_memory(),
        provenance=provenance([engine.backend]),
        **engine.exact_fields("on" if priced else "off"),
    )


def _with_head(engine: Engine, checkpoints: Checkpoints) -> Engine:
    head = load_head(engine.backend, checkpoints.head, engine.target.model)
    assert head
    return replace(engine, draft=None, head=LoadedHead(HEAD, checkpoints.head, head))


def _prompt(engine: Engine, count: int) -> Prompt:
    """A question about `count` pictures in the image size of the target."""
    vision = engine.target.model.config.vision
    assert vision
    prompts = world_prompts(count, size=vision.image_size)
    pictures = [prompt.message.pictures[0] for prompt in prompts]
    return user_prompt(QUESTION, pictures, f"{count} images")


def _drafted_token(
    engine: Engine, prompt: Prompt, drafting: str, repeats: int, progress: Progress
) -> Cost:
    progress(f"drafting {drafting}")
    _, [seconds] = step_seconds(engine, prompt, (GAMMA + 1,), [drafting], repeats)
    return Cost(seconds, _drafted_bytes(engine, prompt, drafting))


def _drafted_bytes(engine: Engine, prompt: Prompt, drafting: str) -> int:
    model, target = engine.target.model, prefilled_target(engine, prompt.message)
    if engine.head:
        return head_bytes(engine.head.head.config, model.config, model.dtype, target.length)
    assert engine.draft
    side = open_beside(engine, prompt, drafting, target)
    positions = sum(side.drafter.row_lengths)
    return step_bytes(engine.draft.model.config, model.dtype, positions, model.quantize)


def _prefill(engine: Engine, prompt: Prompt, repeats: int, progress: Progress) -> Prefill:
    progress(f"prefill: {prompt.name}")
    positions = prefilled_target(engine, prompt.message).length
    seconds = median_seconds(engine, lambda: prefilled_target(engine, prompt.message), repeats)
    return Prefill(positions, seconds)


def _vision(engine: Engine, picture: Picture, repeats: int) -> float:
    cache = engine.target.features
    assert cache
    array = cache.pixels(picture)
    cache.model.encode(array)
    return median_seconds(engine, lambda: cache.model.encode(array), repeats)
