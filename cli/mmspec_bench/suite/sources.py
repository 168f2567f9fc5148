"""Reads the samples that --suite names: the synthetic world, datasets, MMSpec, prompts, clips."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Annotated

from mmspec.checkpoints.hub_cache import cached_dataset
from mmspec.diagnostics.prompts import read_prompts
from mmspec.ground.errors import HubError, UsageError, choice
from mmspec.ground.input_files import expand_home
from mmspec.ground.json_file import Length, parse_lines, read_lines
from mmspec.prompt.conversation import IMAGE_MARKER, Message, interleave
from mmspec.prompt.file_kinds import CLIP_SUFFIXES
from mmspec.prompt.film import open_clip
from mmspec.prompt.images import open_picture
from mmspec_bench.prompts import world_questions
from mmspec_bench.suite.datasets import DATASETS, GROUPS, Dataset, FollowUp, Read
from mmspec_world.wording import prompts

FOLLOW_UPS: dict[FollowUp, str] = {
    "story": "Can you use the previous responses to write a long story for children?",
    "caption": "Provide a detailed caption for the provided image.",
    "summary": "Summarize the previous answer.",
}
Tasks = Mapping[str, FollowUp | None]
"""The kind of the second question by task."""
SAMPLES = 100
"""Number of samples of each task by default, as many as in the papers' datasets."""
OFFLINE_TASKS: Tasks = {
    "chart": "next",
    "text": "next",
    "general": "next",
    "hallucination": "next",
    "spot": "story",
    "edit": "story",
    "pororo": None,
    "vist": None,
    "conversation": None,
    "detail": "summary",
    "reasoning": "caption",
    "caption": None,
    "science": None,
    "video": None,
}
"""Tasks that imitate the papers' datasets."""
TEXT_TASKS: Tasks = {"told": None}
"""Tasks without images; rows and published tables use these names."""
CLIP_TASKS: Tasks = {"clip8": None, "clip16": None}
"""Tasks of moving scenes in eight and sixteen frames, for a target that was trained on them."""
_PAPER_PROMPTS = {"spot": "difference", "edit": "edit", "video": "video"}
"""The world's names of the prompts for tasks for which it has several, the papers' first."""
_REASONING_TASKS = ("chart", "text", "general", "hallucination")
"""Tasks whose questions follow the papers' request for reasoning."""
SYNTHETIC = {"offline": OFFLINE_TASKS, "offline-text": TEXT_TASKS, "offline-clips": CLIP_TASKS}
"""Tasks of the synthetic world by the name of their suite."""
Text = Annotated[str, Length(1, 100_000)]
FILM_FPS = 1.0
"""Frames a second of films in a folder, as in FLASH (Wang et al. 2025)."""
MMSPEC = "mmspec"
"""The name of MMSpec (arXiv 2603.14989), with which its folder as it is distributed is given."""
MMSPEC_FILES = ("test/mmspec.jsonl", "mmspec.jsonl")
NAMES = (*SYNTHETIC, *GROUPS, *DATASETS, f"{MMSPEC}=DIR")


@dataclass(frozen=True, slots=True)
class SuiteSample:
    """One conversation, whose questions are read when they are needed."""

    name: str
    """Task and number, such as `chart/17`."""
    task: str
    read: Read


def suite_samples(
    suite: str, size: int, *, limit: int | None = None, tasks: Sequence[str] = (), seed: int = 0
) -> list[SuiteSample]:
    """Every sample of the suites named in `suite`, in order; at most `limit` of each task.

    suite: names, NAME=PATH and paths, separated by commas.  size: pixels of synthetic images.
    tasks: those to use, all if empty.
    Raises UsageError for an unknown suite, HubError for a dataset that is not on this machine.
    """
    words = [word.strip() for word in suite.split(",") if word.strip()]
    samples = [sample for word in words for sample in _samples(word, size, limit, seed, words)]
    if len({sample.name for sample in samples}) < len(samples):
        raise UsageError(f"--suite {suite}: the same samples twice")
    if not samples:
        raise UsageError("--suite: there is no sample in it")
    available = list(dict.fromkeys(sample.task for sample in samples))
    for task in tasks:
        if task not in available:
            raise choice("task", task, available)
    return [sample for sample in samples if not tasks or sample.task in tasks]


def _samples(
    word: str, size: int, limit: int | None, seed: int, words: Sequence[str]
) -> list[SuiteSample]:
    """The samples of a word; `words` are all words, which may name folders of other datasets."""
    name, equals, path = word.partition("=")
    if word in SYNTHETIC:
        return offline(size, limit, seed, SYNTHETIC[word])
    if word in GROUPS:
        return [sample for dataset in GROUPS[word] for sample in _of_dataset(dataset, {}, limit)]
    if equals and name == MMSPEC:
        return list(_of_mmspec(expand_home(path), limit))
    if name in DATASETS:
        parts = [other.partition("=") for other in words]
        folders = {name: expand_home(path) for name, _, path in parts if path}
        return _of_dataset(name, folders, limit)
    if equals:
        raise choice("dataset", name, (*DATASETS, MMSPEC))
    return _of_path(expand_home(word), limit)


def offline(
    size: int, limit: int | None = None, seed: int = 0, tasks: Tasks = OFFLINE_TASKS
) -> list[SuiteSample]:
    """Held-out samples of every task from `seed` on; images of `size` x `size` pixels."""
    samples: list[SuiteSample] = []
    for task, follow_up in tasks.items():
        reword = partial(_as_in_papers, task)
        firsts = [
            SuiteSample(f"{task}/{n}", task, partial(world_questions, task, n, size, reword))
            for n in range(seed, seed + (limit or SAMPLES))
        ]
        samples += _with_follow_up(firsts, follow_up)
    return samples


def _alone(question: Message) -> Read:
    """Reads one question that is known already."""
    return lambda: (question,)


def _with_follow_up(samples: list[SuiteSample], follow_up: FollowUp | None) -> list[SuiteSample]:
    """The samples, each with a second question; after the last one, "next" is the first."""
    if follow_up is None:
        return samples
    if follow_up == "next":
        seconds = [*samples[1:], *samples[:1]]
    else:
        question = _alone(Message("user", (FOLLOW_UPS[follow_up],)))
        seconds = [replace(sample, read=question) for sample in samples]
    return list(map(_two_turns, samples, samples, seconds))


def _two_turns(sample: SuiteSample, first: SuiteSample, second: SuiteSample) -> SuiteSample:
    """The sample with the first question of each of two."""
    return replace(sample, read=lambda: (first.read()[0], second.read()[0]))


def _as_in_papers(task: str, question: str) -> str:
    if task in _REASONING_TASKS:
        request = prompts("reasoned")[0]
        return request + question.removeprefix(request)
    return prompts(_PAPER_PROMPTS[task])[0] if task in _PAPER_PROMPTS else question


def _number(task: str, reads: Iterable[Read]) -> list[SuiteSample]:
    return [SuiteSample(f"{task}/{number}", task, read) for number, read in enumerate(reads)]


def _of_path(path: Path, limit: int | None) -> list[SuiteSample]:
    if path.is_file() and path.suffix == ".jsonl":
        prompts_of_file = read_prompts(path)[:limit]
        return _number(path.stem, [_alone(prompt.message) for prompt in prompts_of_file])
    if films := sorted(f for f in path.rglob("*") if f.suffix.lower() in CLIP_SUFFIXES):
        return _number(path.resolve().name, [partial(_captioning, f) for f in films[:limit]])
    if path.exists():
        raise UsageError(
            f"--suite {path}: this is no .jsonl file of prompts and no folder of clips; for a "
            f"dataset of the hub say which, such as chartqa={path}"
        )
    raise choice("suite", str(path), NAMES)


def _captioning(film: Path) -> tuple[Message, ...]:
    return (Message("user", (open_clip(film, FILM_FPS), prompts("video")[0])),)


def _of_dataset(name: str, folders: Mapping[str, Path], limit: int | None) -> list[SuiteSample]:
    """The samples of a dataset, in its folder of `folders` or in the hub's cache."""
    dataset = DATASETS[name]
    samples = _number(name, dataset.reads(_tables(name, dataset, folders.get(name)), limit))
    if dataset.after:
        firsts = cycle(_of_dataset(dataset.after, folders, None))
        return list(map(_two_turns, samples, firsts, samples))
    return _with_follow_up(samples, dataset.follow_up)


def _tables(name: str, dataset: Dataset, folder: Path | None) -> list[Path]:
    """A dataset's tables: in the hub's cache, or in a folder, laid out as on the hub or flat."""
    if folder is None:
        if files := cached_dataset(dataset.repository, dataset.files):
            return files
        raise HubError(
            f"{name} is not on this machine: run `hf download --repo-type dataset "
            f'{dataset.repository} --include "{dataset.files}"` where there is network, or give '
            f"{name}=DIR"
        )
    for pattern in (dataset.files, Path(dataset.files).name, "*.parquet"):
        if files := sorted(folder.glob(pattern)):
            return files
    raise UsageError(f"--suite {name}={folder}: there is no {dataset.files} or *.parquet")


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A line of `mmspec.jsonl`, all about one image in the folder beside it."""

    id: Text
    image: Text
    turns: Annotated[list[Text], Length(1, 100)]
    topic: Text


def _of_mmspec(folder: Path, limit: int | None) -> Iterator[SuiteSample]:
    """The first `limit` conversations of each topic, which is their task; raises UsageError."""
    file = next((folder / name for name in MMSPEC_FILES if (folder / name).is_file()), None)
    if file is None:
        raise UsageError(f"--suite {MMSPEC}={folder}: there is no {' or '.join(MMSPEC_FILES)}")
    counts = Counter[str]()
    for _, line in parse_lines(_Conversation, read_lines(file), file):
        counts[line.topic] += 1
        if limit is None or counts[line.topic] <= limit:
            read = partial(_about_image, file.parent / "images" / line.image, *line.turns)
            yield SuiteSample(f"{line.topic}/{line.id}", line.topic, read)


def _about_image(image: Path, text: str, *later: str) -> tuple[Message, ...]:
    """A question about an image, and those after it."""
    if text.count(IMAGE_MARKER) > 1:
        raise UsageError(f"{image}: its question has more than one {IMAGE_MARKER}")
    return interleave(text, [open_picture(image)]), *(Message("user", (text,)) for text in later)
