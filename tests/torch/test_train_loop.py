"""The training loop on a module of two numbers: what it logs, resumes and leaves to others."""

import csv
import io
import itertools
import signal
from dataclasses import dataclass, replace

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from training_supply import Killed

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


def trained(folder, steps=6, team=None, of=None, console=None):
    machine = loop.Machine(torch.device("cpu"), 0, False, team=team or Alone())
    with log.opened(folder / "log.csv", console or Console(quiet=True)) as opened:
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
            raise Killed
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fails)
        with pytest.raises(Killed):
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
        for stage, step in (("toy", 1), ("toy", 2), ("other", 9), ("stage", 1)):
            opened.write(log.Row(step, stage, 1.0, 1.0, 1.0, 1.0, Batch(torch.zeros(1))))
        opened.held_out("toy", 2, 1.0, 1.0)
        opened.cut("toy", 1)
        opened.cut("stage", 0)
        opened.held_out("toy", 1, 1.0, 1.0)
    assert rows(tmp_path) == [("1", "toy"), ("9", "other"), ("1", "toy/held-out")]


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_a_run_that_is_ended_says_where_it_stands_and_goes_on_there(tmp_path, end):
    whole, told = phase(every=None), io.StringIO()
    (tmp_path / "whole").mkdir()
    trained(tmp_path / "whole", of=whole)
    ended, taken = phase(every=None), itertools.count(1)

    def loss(batch, step):
        if next(taken) == 4:
            raise end
        return whole_loss(batch, step)

    whole_loss = ended.loss
    with pytest.raises(end):
        trained(tmp_path, of=replace(ended, loss=loss), console=Console(file=told, width=40))
    stopped = "toy: stopped after step 3; the same command goes on after step 3"
    assert told.getvalue().splitlines()[-1] == stopped
    again = phase(every=None)
    trained(tmp_path, of=again)
    assert [step for step, stage in rows(tmp_path) if stage == "toy"] == [*"123456"]
    assert torch.equal(again.module.weight, whole.module.weight)


@pytest.mark.parametrize(
    ("owner", "name"), [(loop.Optimizer, "step"), (log.Log, "held_out")], ids=["step", "look"]
)
def test_what_must_be_done_as_a_whole_is_done_before_a_run_ends(tmp_path, monkeypatch, owner, name):
    real, whole, calls = getattr(owner, name), phase(), itertools.count(1)
    (tmp_path / "whole").mkdir()
    trained(tmp_path / "whole", of=whole)

    def pressed(*given):
        real(*given)
        if next(calls) == 2:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, pressed)
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path)
    again = phase()
    trained(tmp_path, of=again)
    for file in ("log.csv", "marks.csv"):
        assert rows(tmp_path, file) == rows(tmp_path / "whole", file)
    assert torch.equal(again.module.weight, whole.module.weight)


@pytest.mark.parametrize("look", [1, 2, 3])
def test_a_look_that_was_cut_short_is_done_again(tmp_path, look):
    whole, looks = phase(), itertools.count(1)
    (tmp_path / "whole").mkdir()
    trained(tmp_path / "whole", of=whole)
    cut = phase()

    def seen():
        if next(looks) == look:
            raise KeyboardInterrupt
        return cut.exam.look()

    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, of=replace(cut, exam=replace(cut.exam, look=seen)))
    trained(tmp_path)
    assert rows(tmp_path, "marks.csv") == rows(tmp_path / "whole", "marks.csv")
    assert rows(tmp_path) == rows(tmp_path / "whole")


def test_a_process_that_is_not_the_first_has_a_log_of_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with log.unwritten() as nothing:
        nothing.write(log.Row(1, "toy", 1.0, 1.0, 1.0, 1.0, Batch(torch.zeros(1))))
        nothing.judged("toy", 1, 1.0, Mark(1.0))
        nothing.show("toy", 1, 0.5)
    assert list(tmp_path.iterdir()) == []


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
