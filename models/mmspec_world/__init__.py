"""The synthetic world: pictures with questions and true answers, generated from a seed."""

from mmspec_world.drawing import LABELS
from mmspec_world.facts import JudgedTurn, Sample
from mmspec_world.tasks import SCRIPTS, TASKS, labelled_picture, sample

__all__ = ["LABELS", "SCRIPTS", "TASKS", "JudgedTurn", "Sample", "labelled_picture", "sample"]
