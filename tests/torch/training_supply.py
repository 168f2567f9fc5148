"""Conversations with a tiny target to learn from."""

import torch
from rich.console import Console

from mmspec_torch.train import log, loop
from mmspec_torch.train.distill.corpus import World
from mmspec_torch.train.distill.prepare import Want
from mmspec_torch.train.distill.supply import Supply

TASKS = {"chat": 1.0, "spot": 1.0, "told": 1.0}


def supplied(teacher, directory, **wanted):
    size = teacher.config.vision.image_size
    want = Want(**({"samples": 8, "longest": 8, "rows": 4, "cache_bytes": 10**8} | wanted))
    machine = loop.Machine(torch.device("cpu"), 0, False)
    corpora = World(TASKS, size), World(TASKS, size, "held-out")
    return Supply(teacher, directory, corpora, want, machine, 400, 8)


def prepared(supply):
    with log.opened(supply.directory / "log.csv", Console(quiet=True)) as opened:
        supply.prepare(opened)


def lesson_of(supply, want=lambda record: True):
    lessons = supply.held_out
    record = next(record for record in lessons.records() if want(record))
    return record, supply.teacher.lesson(lessons.batch([record]))


class Killed(BaseException):
    """Stands for a kill, which nobody answers."""


def interrupt(_log, _stage, step, _progress, _loss=None):
    """Stands for Log.show: a kill after step 4, when the state of step 2 was saved."""
    if step == 4:
        raise Killed
