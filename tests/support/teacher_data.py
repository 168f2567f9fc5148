"""Conversations with a tiny target to learn from."""

import random
from dataclasses import dataclass, replace
from functools import partial

import torch
from rich.console import Console

from mmspec.prompt.conversation import Message
from mmspec.prompt.images import picture_from
from mmspec_train.data.corpus import TEXT_ONLY_PIXELS, WorldCorpus
from mmspec_train.data.teacher import Teacher
from mmspec_train.data.teacher_data import TeacherData
from mmspec_train.run.log import open_log
from mmspec_train.run.machine import Machine
from mmspec_train.settings import DataSettings
from support import factory
from support.factory_qwen import tiny_qwen

TASKS = {"chat": 1.0, "spot": 1.0, "told": 1.0}
SETTINGS = DataSettings(
    "", samples=8, held_out=8, batch=400, answer_tokens=8, answer_rows=4, cache_gb=0.1
)


def quiet_log(directory):
    return open_log(directory, Console(quiet=True))


@dataclass(frozen=True)
class OddCorpus(WorldCorpus):
    """The world's conversations with pictures of many shapes."""

    def turns(self, number):
        rng = random.Random(number)
        return [
            replace(turn, question=Message("user", tuple(_odd(turn.question.parts, rng))))
            for turn in super().turns(number)
        ]


def _odd(parts, rng):
    """The parts of a message, with pictures from 16 to 75 pixels wide and high."""
    for part in parts:
        if isinstance(part, str):
            yield part
            continue
        width, height = rng.randrange(16, 76), rng.randrange(16, 76)
        yield picture_from(part.image.resize((width, height)))


def teacher_data(teacher, directory, **settings):
    vision = teacher.config.vision
    shares = TASKS if vision else {"told": 1.0}
    size = vision.image_size if vision else TEXT_ONLY_PIXELS
    machine = Machine(torch.device("cpu"), 180.0)
    corpora = OddCorpus(shares, size), OddCorpus(shares, size, "held-out")
    return TeacherData(teacher, directory, corpora, replace(SETTINGS, **settings), machine)


def answered_by(family, folder, tied=False, **settings):
    """Conversations that a new teacher of a family answered."""
    make = factory.tiny_llava if family == "llava" else partial(tiny_qwen, family)
    teacher = Teacher(make(folder / "target", tied=tied), "cpu")
    data = teacher_data(teacher, folder / "answers", **settings)
    prepare(data)
    return data


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
