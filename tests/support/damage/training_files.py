"""Runs of training, their data, and a teacher's answers, and how a process uses them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from mmspec_train.data.conversation_file import ConversationFile
from mmspec_train.run.run_manifest import check_manifest
from support.damage.subject import picture

TURNS = [{"from": "human", "value": "<image>\nwhat?"}, {"from": "gpt", "value": "a cat"}]


def make_training(folder: Path) -> None:
    """A run's options and conversations to train on."""
    (folder / "run.json").write_text(json.dumps({"seed": 1, "steps": {"a": 2}}))
    picture().save(folder / "a.png")
    entries = [{"image": "a.png", "conversations": TURNS} for _ in range(40)]
    (folder / "conversations.json").write_text(json.dumps(entries))


def use_training(file: Path, _: str) -> None:
    """Compare the options, and index the conversations."""
    check_manifest(file.parent / "run.json", {"seed": 1, "steps": {"a": 2}}, "begin anew")
    ConversationFile(file.parent / "conversations.json", file.parent).check()


TEACHER_FILES = ("state.pt", "train.jsonl", "about.train.json", *("train.states",) * 2)


def make_teacher(folder: Path) -> None:
    """A training state, and a teacher's answers with their hidden states."""
    import torch

    from mmspec_torch.device.tensor_files import save_state
    from support.teacher_data import prepare

    save_state(folder / "state.pt", {"step": 3, "module": {"weight": torch.ones(4, 4)}})
    prepare(_teacher_data(folder))


def use_teacher(file: Path, _: str) -> None:
    """Read both, and learn from all answers."""
    from mmspec_torch.device.tensor_files import read_state

    read_state(file.parent / "state.pt")
    data = _teacher_data(file.parent)
    data.check()
    for batch in data.batches("all").once():
        data.teacher.read(batch)


def _teacher_data(folder: Path) -> Any:
    from support.teacher_data import teacher_data

    teacher = _teacher(folder.parents[1] / "llava" / "source")
    return teacher_data(teacher, folder, samples=5, held_out=1)


@cache
def _teacher(path: Path) -> Any:
    from mmspec_train.data.teacher import Teacher

    return Teacher(path, "cpu")
