"""The training loop on a module of two numbers: what it logs, resumes and leaves to others."""

import csv
import itertools
from dataclasses import dataclass

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from mmspec import errors
from mmspec_torch.train import log, loop
from mmspec_torch.train.exam import Exam, Mark
from mmspec_torch.train.team import Alone


@dataclass(frozen=True)
class Batch:
    x: Tensor

    samples = tokens = 1


class Numbers:
    def batches(self, start):
        return (Batch(torch.full((1, 2), float(n))) for n in itertools.count(start))


def phase(name="toy", every=2):
    torch.manual_seed(0)
    module = nn.Linear(2, 1)
    exam = Exam(lambda: Mark(float(module.weight.sum()), {"sum": 1.0}), every=every)

    def loss(batch, _):
        return module(batch.x).square().mean()

    return loop.Phase(name, module, [(module, 1e-3)], loss, [Numbers()], Numbers(), exam=exam)


def trained(folder, steps=6, team=None, of=None):
    machine = loop.Machine(torch.device("cpu"), 0, False, team=team or Alone())
    with log.opened(folder / "log.csv", Console(quiet=True)) as opened:
        loop.run(of or phase(), loop.Budget(steps=steps), machine, folder / "toy.state", opened)


def rows(folder, name="log.csv"):
    """Step and stage of every row."""
    with (folder / name).open(newline="", encoding="utf-8") as file:
        return [(row["step"], row["stage"]) for row in csv.DictReader(file)]


def interrupted(folder, monkeypatch, method, at):
    """Train until `method` is called for the `at`-th time."""
    calls, (owner, name) = itertools.count(1), method
    real = getattr(owner, name)

    def fails(*given, **named):
        if next(calls) == at:
            raise KeyboardInterrupt
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fails)
        with pytest.raises(KeyboardInterrupt):
            trained(folder)


@pytest.mark.parametrize(
    ("method", "at"),
    [((log.Log, "show"), 1), ((log.Log, "show"), 5), ((loop._Run, "save"), 2)],
    ids=["before-a-checkpoint", "between-two", "after-a-look"],
)
def test_a_resumed_log_holds_every_row_once(tmp_path, monkeypatch, method, at):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
    trained(whole)
    interrupted(broken, monkeypatch, method, at)
    trained(broken)
    assert rows(broken) == rows(whole)
    assert rows(broken, "marks.csv") == rows(whole, "marks.csv")
    assert [step for step, stage in rows(broken) if stage == "toy"] == [*"123456"]


def test_a_row_torn_by_a_kill_is_taken_off(tmp_path, monkeypatch):
    interrupted(tmp_path, monkeypatch, (log.Log, "show"), 5)
    with (tmp_path / "log.csv").open("a") as file:
        file.write("6,to")
    trained(tmp_path)
    assert [step for step, stage in rows(tmp_path) if stage == "toy"] == [*"123456"]


def test_other_stages_and_what_a_checkpoint_holds_stay(tmp_path):
    with log.opened(tmp_path / "log.csv", Console(quiet=True)) as opened:
        for stage, step in (("toy", 9), ("other", 9), ("toy", 1), ("toy", 2)):
            opened.write(log.Row(step, stage, 1.0, 1.0, 1.0, 1.0, Batch(torch.zeros(1))))
        opened.held_out("toy", 2, 1.0, 1.0)
        opened.cut("toy", 1)
        opened.held_out("toy", 1, 1.0, 1.0)
    kept = [("9", "toy"), ("9", "other"), ("1", "toy"), ("1", "toy/held-out")]
    assert rows(tmp_path) == kept


def test_a_finished_phase_is_not_looked_at_again(tmp_path):
    trained(tmp_path)
    trained(tmp_path)
    assert [step for step, _ in rows(tmp_path, "marks.csv")] == ["2", "4", "6"]


class Second(Alone):
    """A process that is not the first: the first one's files are there once it has waited."""

    rank, size = 1, 2

    def __init__(self, folder):
        self.folder, self.last = folder, 0.0

    def told(self, value):
        if self.last == 1.0 and value == 0.0:  # the budget was spent, and this is a wait
            torch.save(phase().module.state_dict(), self.folder / "toy.best")
        self.last = value
        return value


def test_other_processes_write_nothing_and_wait_for_the_best_state(tmp_path):
    mine = phase(every=None)
    trained(tmp_path, steps=3, team=Second(tmp_path), of=mine)
    assert rows(tmp_path) == []
    assert not (tmp_path / "marks.csv").exists()
    assert torch.equal(mine.module.weight, phase().module.weight)


def test_a_loss_that_is_no_number_says_what_to_do(tmp_path):
    broken = phase()
    broken.module.weight.data.fill_(float("nan"))
    with pytest.raises(errors.MmspecError, match="begin anew with a lower learning rate"):
        trained(tmp_path, of=broken)
