"""Reads the samples that --suite names: the synthetic world, datasets, prompts, clips."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from mmspec.checkpoints.hub_cache import cached_dataset
from mmspec.diagnostics.prompts import read_prompts
from mmspec.ground.errors import HubError, UsageError, choice
from mmspec.ground.paths import expand_home
from mmspec.prompt.conversation import Message
from mmspec.prompt.file_kinds import CLIP_SUFFIXES
from mmspec.prompt.film import open_clip
from mmspec_bench.suite.dataset_rows import read_table
from mmspec_bench.suite.datasets import DATASETS, GROUPS, Dataset
from mmspec_bench.suite.offline import CLIP_TASKS, OFFLINE_TASKS, TEXT_TASKS, offline
from mmspec_bench.suite.original_files import ORIGINALS
from mmspec_bench.suite.samples import (
    Question,
    SuiteSample,
    asked_after,
    first_turns,
    with_follow_up,
)
from mmspec_world.prompts import VIDEO

SYNTHETIC = {
    "offline": OFFLINE_TASKS,
    "offline-text": TEXT_TASKS,
    "offline-clips": CLIP_TASKS,
}
"""Tasks of the synthetic world by the name of their suite."""
FILM_FPS = 1.0
"""Frames a second of films in a folder, as in FLASH (Wang et al. 2025)."""
OWN_ROWS = 100
"""Samples of a dataset's own files, if --limit does not say how many."""
OWN_FILES_ONLY = tuple(f"{name}=DIR" for name in ORIGINALS if name not in DATASETS)
NAMES = (*SYNTHETIC, *GROUPS, *DATASETS, *OWN_FILES_ONLY)


def suite_samples(
    suite: str,
    size: int,
    *,
    limit: int | None = None,
    turns: int | None = None,
    tasks: Sequence[str] = (),
    seed: int = 0,
) -> list[SuiteSample]:
    """Every sample of the suites named in `suite`, in order; at most `limit` of each task.

    suite: names, NAME=PATH and paths, separated by commas.  size: pixels of synthetic images.
    turns: questions to keep of each sample, None for all.  tasks: those to use, all if empty.
    Raises UsageError for an unknown suite, HubError for a dataset that is not on this machine.
    """
    words = [word.strip() for word in suite.split(",") if word.strip()]
    samples = [sample for word in words for sample in _samples(word, size, limit, seed, words)]
    if len({sample.name for sample in samples}) < len(samples):
        raise UsageError(f"--suite {suite}: the same samples twice")
    return [first_turns(sample, turns) for sample in _of_tasks(samples, tasks)]


def _of_tasks(samples: Sequence[SuiteSample], tasks: Sequence[str]) -> list[SuiteSample]:
    available = list(dict.fromkeys(sample.task for sample in samples))
    for task in tasks:
        if task not in available:
            raise choice("task", task, available)
    if not samples:
        raise UsageError("--suite: there is no sample in it")
    return [sample for sample in samples if not tasks or sample.task in tasks]


def _samples(
    word: str, size: int, limit: int | None, seed: int, words: Sequence[str]
) -> list[SuiteSample]:
    """The samples of a word; `words` are all words, which may name folders of other datasets."""
    name, equals, _ = word.partition("=")
    if word in SYNTHETIC:
        return offline(size, limit=limit, seed=seed, tasks=SYNTHETIC[word])
    if word in GROUPS:
        return [sample for dataset in GROUPS[word] for sample in _of_dataset(dataset, {}, limit)]
    if name in DATASETS or (equals and name in ORIGINALS):
        return _of_dataset(name, _folders(words), limit)
    if equals:
        raise choice("dataset", name, (*DATASETS, *ORIGINALS))
    return _of_path(expand_home(word), limit)


def _folders(words: Sequence[str]) -> dict[str, Path]:
    """The folders of NAME=DIR, by name."""
    parts = [word.partition("=") for word in words]
    return {name: expand_home(path) for name, _, path in parts if path}


def _of_path(path: Path, limit: int | None) -> list[SuiteSample]:
    if path.is_file() and path.suffix == ".jsonl":
        return [
            SuiteSample(f"{path.stem}/{number}", path.stem, partial(_question, prompt.message))
            for number, prompt in enumerate(islice(read_prompts(path), limit))
        ]
    if films := sorted(f for f in path.rglob("*") if f.suffix.lower() in CLIP_SUFFIXES):
        task = path.resolve().name
        return [
            SuiteSample(f"{task}/{number}", task, partial(_captioning, film))
            for number, film in enumerate(films[:limit])
        ]
    if path.exists():
        raise UsageError(
            f"--suite {path}: this is no .jsonl file of prompts and no folder of clips; for a "
            f"dataset of the hub say which, such as chartqa={path}"
        )
    raise choice("suite", str(path), NAMES)


def _captioning(film: Path) -> tuple[Question, ...]:
    return _question(Message("user", (open_clip(film, FILM_FPS), VIDEO[0])))


def _of_dataset(name: str, folders: Mapping[str, Path], limit: int | None) -> list[SuiteSample]:
    """The samples of a dataset, in its folder of `folders` or in the hub's cache."""
    folder = folders.get(name)
    if folder and name in ORIGINALS and (file := ORIGINALS[name].file_in(folder)):
        return _of_own_file(name, file, limit)
    if name not in DATASETS:
        raise UsageError(f"--suite {name}={folder}: there is no {ORIGINALS[name].files[0]}")
    dataset = DATASETS[name]
    records = read_table(
        _files(name, dataset, folder),
        ("question", *dataset.images),
        min(dataset.rows, limit or dataset.rows),
        dataset.filter,
    )
    reads = [partial(dataset.questions, record) for record in records]
    samples = [SuiteSample(f"{name}/{number}", name, read) for number, read in enumerate(reads)]
    if dataset.after:
        return asked_after(samples, _of_dataset(dataset.after, folders, None))
    return with_follow_up(samples, dataset.follow_up)


def _of_own_file(name: str, file: Path, limit: int | None) -> list[SuiteSample]:
    """The samples in the file of a dataset's authors."""
    dataset = DATASETS.get(name)
    rows = dataset.rows if dataset else OWN_ROWS
    reads = islice(ORIGINALS[name].reads(file), min(rows, limit or rows))
    samples = [SuiteSample(f"{name}/{number}", name, read) for number, read in enumerate(reads)]
    return with_follow_up(samples, dataset.follow_up if dataset else None)


def _files(name: str, dataset: Dataset, folder: Path | None) -> list[Path]:
    """A dataset's tables: in the hub's cache, or in a folder, laid out as on the hub or flat."""
    if folder is None:
        for repository in dataset.repositories:
            if files := cached_dataset(repository, dataset.files):
                return files
        raise HubError(
            f"{name} is not on this machine: run `hf download --repo-type dataset "
            f'{dataset.repositories[0]} --include "{dataset.files}"` where there is network, or '
            f"give {name}=DIR"
        )
    for pattern in (dataset.files, Path(dataset.files).name, "*.parquet"):
        if files := sorted(folder.glob(pattern)):
            return files
    raise UsageError(f"--suite {name}={folder}: there is no {dataset.files} or *.parquet")


def _question(message: Message) -> tuple[Question, ...]:
    return (Question(message),)
