"""The papers' datasets: where the hub keeps them, which columns they have, and how they are asked.

Rows are the first of the split, in order, as published measurements take them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mmspec.bench.prompts import MARKER, question
from mmspec.bench.suite.items import Question, Second
from mmspec.bench.suite.tables import Record
from mmspec.bench.world import Turn
from mmspec.bench.world.palette import LETTERS
from mmspec.bench.world.tasks import REASONED, STEPS
from mmspec.errors import UsageError

LITE = "lmms-lab/LMMs-Eval-Lite"
INTERLEAVE = "lmms-lab/LLaVA-NeXT-Interleave-Bench"
PRESENT = "lmms-lab-encoder"
"""Where the owner of all of them, lmms-lab, has moved them (lmms-eval, July 2026)."""
MOST_IMAGES = 16
"""Of a row of INTERLEAVE; lmms-eval looks for no more."""
DESCRIBE = "Describe this image in detail."


def reasoned(record: Record) -> str:
    """The question with the prefix of the papers' visual question answering."""
    return REASONED + record.text("question")


def verbatim(record: Record) -> str:
    """The dataset's own question."""
    return record.text("question")


def described(_record: Record) -> str:
    """MMSpec's request for a caption; the dataset's own question asks for something else."""
    return DESCRIBE


def chosen(record: Record) -> str:
    """A multiple choice, answered with a chain of thought."""
    pairs = zip(LETTERS, record.texts("choices"), strict=False)
    choices = " ".join(f"({letter}) {choice}" for letter, choice in pairs)
    hint = record.value("hint")
    context = f"Context: {hint}\n" if hint else ""
    return f"{context}Question: {record.text('question')}\nChoices: {choices}\n{STEPS}"


@dataclass(frozen=True, slots=True)
class Layout:
    """One dataset."""

    repository: str
    """As the papers name it."""
    files: str
    """A pattern below the repository's root."""
    prompt: Callable[[Record], str]
    columns: tuple[str, ...] = ("question",)
    """Besides the images."""
    images: tuple[str, ...] = ("image",)
    """Columns, of which those after the first may be empty or missing."""
    where: tuple[str, str] | None = None
    rows: int = 100
    second: Second | None = None

    @property
    def homes(self) -> tuple[str, str]:
        """Where it is on the hub, and where it was."""
        return f"{PRESENT}/{self.repository.partition('/')[2]}", self.repository

    def questions(self, record: Record) -> tuple[Question, ...]:
        """What a row asks; raises UsageError or ImageError naming row and column."""
        text = self.prompt(record)
        first, *more = self.images
        shown = [first, *(column for column in more if record.has(column))]
        pictures = [record.picture(column) for column in shown]
        markers = text.count(MARKER)
        if markers not in (0, len(pictures)):
            raise UsageError(f"{record.where}: {markers} {MARKER} for {len(pictures)} images")
        return (Question(question(Turn(text, "", (), len(pictures)), pictures)),)


def _lite(folder: str, second: Second | None = None) -> Layout:
    return Layout(LITE, f"{folder}/lite-*.parquet", reasoned, second=second)


def _interleaved(sub_task: str, second: Second | None = None) -> Layout:
    return Layout(
        INTERLEAVE,
        "in_domain/test-*.parquet",
        verbatim,
        columns=("question", "sub_task"),
        images=tuple(f"image_{number}" for number in range(MOST_IMAGES)),
        where=("sub_task", sub_task),
        second=second,
    )


LAYOUTS: dict[str, Layout] = {
    "chartqa": _lite("chartqa"),
    "textvqa": _lite("textvqa_val"),
    "vqav2": _lite("vqav2_val"),
    "docvqa": _lite("docvqa_val", "next"),
    "chartqa-full": Layout("lmms-lab/ChartQA", "data/test-*.parquet", reasoned),
    "textvqa-full": Layout("lmms-lab/textvqa", "data/validation-*.parquet", reasoned),
    "vqav2-full": Layout("lmms-lab/VQAv2", "data/validation-*.parquet", reasoned),
    "hallusion": Layout("lmms-lab/HallusionBench", "data/image-*.parquet", reasoned),
    "pope": Layout("lmms-lab/POPE", "data/test-*.parquet", reasoned, second="next"),
    "mmvet": Layout("lmms-lab/MMVet", "data/test-*.parquet", reasoned, second="next"),
    "spot": _interleaved("Spot-the-Diff", "story"),
    "iedit": _interleaved("IEdit", "story"),
    "magicbrush": _interleaved("MagicBrush", "story"),
    "pororo": _interleaved("PororoSV"),
    "vist": _interleaved("VIST"),
    "llava-w": Layout(
        "lmms-lab/llava-bench-in-the-wild",
        "data/train-*.parquet",
        verbatim,
        rows=60,
        second="next",
    ),
    "scienceqa": Layout(
        "lmms-lab/ScienceQA",
        "ScienceQA-IMG/test-*.parquet",
        chosen,
        columns=("question", "choices", "hint"),
    ),
    "coco": Layout("lmms-lab/COCO-Caption2017", "data/val-*.parquet", described),
}

GROUPS: dict[str, tuple[str, ...]] = {
    "ibed": (
        *("chartqa", "textvqa", "vqav2", "hallusion"),
        *("spot", "iedit", "pororo", "vist"),
    ),
    "tabed": (
        *("llava-w", "docvqa", "pope", "mmvet"),
        *("iedit", "magicbrush", "spot", "pororo", "vist"),
    ),
}
"""The datasets of a paper's tables."""
