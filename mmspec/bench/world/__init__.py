"""The drawn world: scenes, charts, words, pairs and stories with questions, made from a seed."""

from mmspec.bench.world.draw import LABELS
from mmspec.bench.world.facts import CATEGORIES, Fact, Sample, Turn, judge
from mmspec.bench.world.samples import TASKS, labelled, sample
from mmspec.bench.world.split import Split, split_of

__all__ = [
    "CATEGORIES",
    "LABELS",
    "TASKS",
    "Fact",
    "Sample",
    "Split",
    "Turn",
    "judge",
    "labelled",
    "sample",
    "split_of",
]
