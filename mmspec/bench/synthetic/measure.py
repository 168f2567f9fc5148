"""What rounds cost on a checkpoint of random weights, part by part, beside the floor."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from mmspec.bench.costs import Passes, branch_words, side_beside, steps, timed
from mmspec.bench.prompts import Prompt, asked, drawn
from mmspec.bench.provenance import provenance
from mmspec.bench.synthetic.checkpoints import Kit
from mmspec.bench.synthetic.floor import Cost, copy_bandwidth, head_bytes, step_bytes
from mmspec.bench.synthetic.imposed import Imposed, impose
from mmspec.config import VisionConfig
from mmspec.drafting import PLAIN
from mmspec.engine import Engine, load
from mmspec.images import Picture, pixels
from mmspec.loaded import LoadedHead
from mmspec.options import Options
from mmspec.registry import load_head
from mmspec.replay import opened

ROWS = (1, 2, 4, 6, 8, 16, 32, 64)
IMAGES = (1, 2, 5)
GAMMA = 5
IMPOSED = (2.24, 2.31, 4.5)
"""Tokens per round that papers report of a 68M draft alone, of ensembles and of heads."""
QUESTION = "What is the difference between these pictures, and what do they have in common?"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Prefill:
    """A prompt fed to the target, its images' features being there."""

    positions: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SyntheticReport:
    """Medians, in seconds; every timed call begins and ends with nothing enqueued."""

    checkpoint: str
    device: str
    dtype: str
    quantize: str
    gamma: int
    positions: int
    """In the target's cache, of one image and a question."""
    repeats: int
    bandwidth: float
    """Bytes per second of a copy, read and written."""
    verify: dict[int, Cost]
    """A target forward by rows; one is plain decoding's."""
    draft: dict[str, Cost]
    """A drafted token by drafting: a letter is a branch, msd the head."""
    rounds: list[Imposed]
    prefill: dict[int, Prefill]
    """By images."""
    vision: float
    """The tower on one image."""
    peak_memory_bytes: int
    provenance: dict[str, Any]

    @property
    def plain(self) -> Imposed:
        """Plain decoding in the loop, to which speed-ups refer."""
        return self.rounds[0]

    def speed_up(self, row: Imposed) -> float:
        """Tokens per second over plain decoding's, acceptance being imposed."""
        return row.tokens_per_second / self.plain.tokens_per_second

    @property
    def ratios(self) -> dict[str, float]:
        """What the goals are stated in."""
        words = sorted(set(self.draft) - {"msd"}, key=len)
        step, one, many = self.verify[1], self.draft[words[0]], self.draft[words[-1]]
        return {
            "floor / plain step": step.floor(self.bandwidth) / step.seconds,
            f"{self.gamma + 1} rows / 1": self.verify[self.gamma + 1].seconds / step.seconds,
            "draft step / plain step": one.seconds / step.seconds,
            f"{len(words[-1])} branches / 1": many.seconds / one.seconds,
            "head step / plain step": self.draft["msd"].seconds / step.seconds,
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-serializable."""
        floors = {"verify": self._floors(self.verify), "draft": self._floors(self.draft)}
        rounds = [
            asdict(row) | {"waiting": row.waiting, "imposed_speed_up": self.speed_up(row)}
            for row in self.rounds
        ]
        return asdict(self) | {"rounds": rounds, "floors": floors, "ratios": self.ratios}

    def _floors(self, costs: Mapping[Any, Cost]) -> dict[str, float]:
        return {str(key): cost.floor(self.bandwidth) for key, cost in costs.items()}


@dataclass(frozen=True, slots=True)
class Bench:
    """The target with its draft, and with its head."""

    drafted: Engine
    headed: Engine
    prompts: dict[int, Prompt]
    """By images."""

    def engine(self, word: str) -> Engine:
        """The one that can draft by `word`."""
        return self.headed if word == "msd" else self.drafted


def open_bench(kit: Kit, **where: Any) -> Bench:
    """Load what was written; `where` is as for `mmspec.engine.load`."""
    engine = load(str(kit.target), str(kit.draft), **where)
    head = load_head(engine.backend, kit.head, engine.target.model)
    assert head
    headed = replace(engine, draft=None, head=LoadedHead("msd", kit.head, head))
    vision = engine.target.model.config.vision
    assert vision
    return Bench(engine, headed, {count: _question(count, vision) for count in IMAGES})


def measure(
    bench: Bench, name: str, repeats: int, progress: Progress, gamma: int = GAMMA
) -> SyntheticReport:
    """Time everything on the device, nothing beside it."""
    engine, prompt = bench.drafted, bench.prompts[1]
    model = engine.target.model
    engine.backend.reset_peak_memory()
    progress("copying")
    bandwidth = copy_bandwidth(engine)
    progress("verifying")
    positions = opened(engine, prompt.message).length
    bytes_read = step_bytes(model.config, model.dtype, positions, model.quantize)
    times, _ = steps(engine, prompt, ROWS, (), Passes(repeats))
    words = [*branch_words(engine), "msd"]
    return SyntheticReport(
        checkpoint=name,
        device=model.device,
        dtype=model.dtype,
        quantize=model.quantize,
        gamma=gamma,
        positions=positions,
        repeats=repeats,
        bandwidth=bandwidth,
        verify={rows: Cost(each, bytes_read) for rows, each in zip(ROWS, times, strict=True)},
        draft={word: _drafting(bench, word, gamma, repeats, progress) for word in words},
        rounds=_rounds(bench, words, gamma, progress),
        prefill={count: _prefill(bench, count, repeats, progress) for count in IMAGES},
        vision=_vision(engine, prompt.message.pictures[0], repeats),
        peak_memory_bytes=engine.backend.peak_memory(),
        provenance=provenance([engine.backend]),
    )


def _question(count: int, vision: VisionConfig) -> Prompt:
    pictures = [each.message.pictures[0] for each in drawn(count, size=vision.image_size)]
    return asked(QUESTION, pictures, f"{count} images")


def _drafting(bench: Bench, word: str, gamma: int, repeats: int, progress: Progress) -> Cost:
    """What a drafted token costs in a draft of `gamma`."""
    progress(f"drafting {word}")
    engine, prompt = bench.engine(word), bench.prompts[1]
    _, [seconds] = steps(engine, prompt, (gamma + 1,), [word], Passes(repeats))
    return Cost(seconds, _drafted_bytes(engine, prompt, word))


def _drafted_bytes(engine: Engine, prompt: Prompt, word: str) -> int:
    model, target = engine.target.model, opened(engine, prompt.message)
    if engine.head:
        return head_bytes(engine.head.head.config, model.config, model.dtype, target.length)
    assert engine.draft
    seen = side_beside(engine, prompt, Options(drafting=word), target).drafter.row_lengths
    return step_bytes(engine.draft.model.config, model.dtype, sum(seen), model.quantize)


def _rounds(bench: Bench, words: Sequence[str], gamma: int, progress: Progress) -> list[Imposed]:
    """Plain decoding, then every drafting with every imposed acceptance."""
    cases = [(PLAIN.word, 1.0), *((word, mean) for word in words for mean in IMPOSED)]
    rows = []
    for word, mean in cases:
        progress(f"rounds: {word}, {mean} tokens imposed")
        rows.append(impose(bench.engine(word), bench.prompts[1], word, gamma, mean))
    return rows


def _prefill(bench: Bench, count: int, repeats: int, progress: Progress) -> Prefill:
    progress(f"prefill: {count} images")
    engine, message = bench.drafted, bench.prompts[count].message
    positions = opened(engine, message).length
    seconds = median(timed(engine, lambda: opened(engine, message)) for _ in range(repeats))
    return Prefill(positions, seconds)


def _vision(engine: Engine, picture: Picture, repeats: int) -> float:
    cache = engine.target.features
    assert cache
    array = pixels(picture, cache.preprocessing)
    cache.model.encode(array)
    return median(timed(engine, lambda: cache.model.encode(array)) for _ in range(repeats))
