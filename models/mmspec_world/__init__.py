"""The synthetic world: pictures with questions and true answers, generated from a seed."""

from mmspec_world.drawing import LABELS
from mmspec_world.facts import CATEGORIES, Fact, JudgedTurn, Sample, judge
from mmspec_world.split import Split, split_of
from mmspec_world.tasks import CLIP_TASKS, SCRIPTS, TASKS, labelled_picture, sample

__all__ = [
    "CATEGORIES",
    "CLIP_TASKS",
    "LABELS",
    "SCRIPTS",
    "TASKS",
    "Fact",
    "JudgedTurn",
    "Sample",
    "Split",
    "judge",
    "labelled_picture",
    "sample",
    "split_of",
]
