"""What --suite names: the drawn world, a paper's datasets, or files on this machine."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mmspec.bench.prompts import read_prompts
from mmspec.bench.suite.items import Item, Question, first_turns, with_second_turn
from mmspec.bench.suite.layouts import GROUPS, LAYOUTS, Layout
from mmspec.bench.suite.offline import OFFLINE_TASKS, TEXT_TASKS, offline
from mmspec.bench.suite.tables import Record, read_table
from mmspec.conversation import Message
from mmspec.errors import HubError, UsageError, choice
from mmspec.hubcache import cached_dataset
from mmspec.paths import typed_path

DRAWN = {"offline": OFFLINE_TASKS, "offline-text": TEXT_TASKS}
"""Suites of the drawn world, by name."""
MMSPEC = "mmspec.jsonl"
NAMES = (*DRAWN, *GROUPS, *LAYOUTS)


def items(
    suite: str,
    size: int,
    *,
    limit: int | None = None,
    turns: int | None = None,
    tasks: Sequence[str] = (),
    seed: int = 0,
) -> list[Item]:
    """Every sample of the suites named in `suite`, in order; at most `limit` of each task.

    suite: names, NAME=PATH and paths, separated by commas.  size: pixels of drawn images.
    tasks: those to take; none takes all.  Raises UsageError for what is no suite and HubError for
    one that is not on this machine.
    """
    words = [word.strip() for word in suite.split(",") if word.strip()]
    every = [item for word in words for item in _items(word, size, limit, seed)]
    names = [item.name for item in every]
    if len(set(names)) < len(names):
        raise UsageError(f"--suite {suite}: the same samples twice")
    return first_turns(_of_tasks(every, tasks), turns)


def _of_tasks(every: Sequence[Item], tasks: Sequence[str]) -> list[Item]:
    known = list(dict.fromkeys(item.task for item in every))
    for task in tasks:
        if task not in known:
            raise choice("task", task, known)
    kept = [item for item in every if not tasks or item.task in tasks]
    if not kept:
        raise UsageError("--suite: there is no sample in it")
    return kept


def _items(word: str, size: int, limit: int | None, seed: int) -> list[Item]:
    name, equals, path = word.partition("=")
    if word in DRAWN:
        return offline(size, limit=limit, seed=seed, tasks=DRAWN[word])
    if word in GROUPS:
        return [item for each in GROUPS[word] for item in _of_layout(each, None, limit)]
    if name in LAYOUTS:
        return _of_layout(name, typed_path(path) if equals else None, limit)
    if equals:
        raise choice("dataset", name, LAYOUTS)
    return _of_path(typed_path(word), limit)


def _of_path(path: Path, limit: int | None) -> list[Item]:
    if (path / MMSPEC).is_file():
        return _limited(_mmspec(path), limit)
    if path.is_file() and path.suffix == ".jsonl":
        return _limited(_prompts(path), limit)
    if path.exists():
        raise UsageError(
            f"--suite {path}: there is no {MMSPEC} in it; for a dataset of the hub say which, such "
            f"as chartqa={path}"
        )
    raise choice("suite", str(path), NAMES)


def _limited(every: Iterator[Item], limit: int | None) -> list[Item]:
    """The first of each task."""
    counts: dict[str, int] = {}
    kept = []
    for item in every:
        counts[item.task] = counts.get(item.task, 0) + 1
        if limit is None or counts[item.task] <= limit:
            kept.append(item)
    return kept


def _of_layout(name: str, folder: Path | None, limit: int | None) -> list[Item]:
    layout = LAYOUTS[name]
    files = _files(name, layout, folder)
    columns = (*layout.columns, *layout.images)
    count = min(layout.rows, limit or layout.rows)
    records = read_table(files, columns, count, layout.where)
    reads = [partial(layout.questions, record) for record in records]
    made = [Item(f"{name}/{number}", name, read) for number, read in enumerate(reads)]
    return with_second_turn(made, layout.second)


def _files(name: str, layout: Layout, folder: Path | None) -> list[Path]:
    """A dataset's tables: in the hub's cache, or in a folder as the hub lays it out or flat."""
    if folder is None:
        for home in layout.homes:
            if found := cached_dataset(home, layout.files):
                return found
        raise HubError(
            f"{name} is not on this machine: run `hf download --repo-type dataset "
            f'{layout.homes[0]} --include "{layout.files}"` where there is network, or give '
            f"{name}=DIR"
        )
    for pattern in (layout.files, Path(layout.files).name, "*.parquet", "*.jsonl"):
        if files := sorted(folder.glob(pattern)):
            return files
    raise UsageError(f"--suite {name}={folder}: there is no {layout.files}, *.parquet or *.jsonl")


def _mmspec(folder: Path) -> Iterator[Item]:
    for number, record in enumerate(read_table([folder / MMSPEC], ())):
        topic, id = (record.values.get(key) for key in ("topic", "id"))
        read = partial(_mmspec_questions, record, folder / "images")
        yield Item(f"mmspec/{id or number}", str(topic or "mmspec"), read)


def _mmspec_questions(record: Record, images: Path) -> tuple[Question, ...]:
    first, *rest = record.texts("turns")
    picture = replace(record, folder=images).picture("image")
    opening = Question(Message("user", (picture, first)))
    return (opening, *(Question(Message("user", (text,))) for text in rest))


def _prompts(file: Path) -> Iterator[Item]:
    for number, prompt in enumerate(read_prompts(file)):
        yield Item(f"{file.stem}/{number}", file.stem, partial(_asked, prompt.message))


def _asked(message: Message) -> tuple[Question, ...]:
    return (Question(message),)
