"""Conversations with a tiny target to learn from."""

from dataclasses import replace

import torch
from rich.console import Console

from mmspec_train.data_settings import DataSettings
from mmspec_train.run.log import open_log
from mmspec_train.run.phase import Machine
from mmspec_train.teacher.corpus import WorldCorpus
from mmspec_train.teacher.teacher_data import TeacherData

TASKS = {"chat": 1.0, "spot": 1.0, "told": 1.0}
SETTINGS = DataSettings(
    "", samples=8, held_out=8, batch=400, answer_tokens=8, answer_rows=4, cache_gb=0.1
)


def quiet_log(directory):
    return open_log(directory, Console(quiet=True))


def teacher_data(teacher, directory, **settings):
    size = teacher.config.vision.image_size
    machine = Machine(torch.device("cpu"), 0, False)
    corpora = WorldCorpus(TASKS, size), WorldCorpus(TASKS, size, "held-out")
    return TeacherData(teacher, directory, corpora, replace(SETTINGS, **settings), machine)


def with_settings(data, **settings):
    return replace(data, settings=replace(data.settings, **settings))


def prepare(data):
    with quiet_log(data.directory) as log:
        data.prepare(log)


def held_out_batch(data, wanted=lambda record: True):
    """A held-out conversation as the teacher reads it."""
    batches = data.held_out
    record = next(record for record in batches.records() if wanted(record))
    return record, data.teacher.read(batches.batch([record]))


class Killed(BaseException):
    """Stands for a kill, which no code catches."""


def kill_after_step_4(_log, _stage, step, _progress, _loss=None):
    """Stands for Log.show: a kill after step 4, when the state of step 2 was saved."""
    if step == 4:
        raise Killed
