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

from mmspec.ground import errors
from mmspec_train.run import loop
from mmspec_train.run.log import Log, open_log
from mmspec_train.run.loop import Phase
from mmspec_train.run.machine import Machine
from mmspec_train.run.optimizer import UPDATE_SIZE, Float32Muon, Optimizer, rate_share
from mmspec_train.settings import Budget
from support.hostile import EVIL, reached
from support.teacher_data import Killed


@dataclass(frozen=True)
class Batch:
    x: Tensor


class Numbers:
    def batches(self, start):
        return (Batch(torch.full((1, 2), float(n))) for n in itertools.count(start))


def numbers():
    return Numbers().batches


class Judge:
    def __init__(self, module):
        self.module = module

    def evaluate(self):
        return {"sum": float(self.module.weight.sum())}


def phase(name="toy", every=2):
    torch.manual_seed(0)
    module = nn.Linear(2, 1)
    judge = Judge(module)

    def loss(batch):
        return module(batch.x).square().mean()

    sources = {"sources": [numbers()], "held_out": numbers(), "evaluate": lambda: judge.evaluate()}
    return Phase(name, module, [(module, 1e-3)], loss, **sources, every=every)


def train(folder, steps=6, of=None, console=None, seconds=180.0):
    machine = Machine(torch.device("cpu"), seconds)
    with open_log(folder, console or Console(quiet=True)) as log:
        loop.run_phase(of or phase(), Budget(steps=steps), machine, folder / "toy.state", log)


def rows(folder, name="log.csv"):
    """Step and stage of every row."""
    with (folder / name).open(newline="", encoding="utf-8") as file:
        return [(row["step"], row["stage"]) for row in csv.DictReader(file)]


def steps(folder):
    """The steps of the training."""
    return [step for step, stage in rows(folder) if stage == "toy"]


def interrupted(folder, monkeypatch, method, at, end=Killed, **options):
    """Train until the `at`-th call of a method raises `end`; a signal comes after the call."""
    calls, (owner, name) = itertools.count(1), method
    real = getattr(owner, name)

    def ending(*arguments, **named):
        if next(calls) != at:
            return real(*arguments, **named)
        if end is not signal.SIGINT:
            raise end
        real(*arguments, **named)
        return signal.raise_signal(end)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, ending)
        with pytest.raises((Killed, KeyboardInterrupt, SystemExit, errors.MmspecError)):
            train(folder, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run without interruption: its directory and its phase."""
    folder, trained = tmp_path_factory.mktemp("whole"), phase()
    train(folder, of=trained)
    return folder, trained


ENDS = [
    *(((Log, "show"), 1, Killed), ((loop._Run, "save"), 2, Killed)),
    *(((Optimizer, "step"), 2, signal.SIGINT), ((Log, "write_evaluation"), 2, signal.SIGINT)),
    *(((Judge, "evaluate"), at, KeyboardInterrupt) for at in (1, 3)),
    ((Numbers, "batches"), 1, errors.ImageError),
]


@pytest.mark.parametrize(("method", "at", "end"), ENDS)
def test_an_interrupted_run_ends_as_a_whole_one(tmp_path, monkeypatch, whole, method, at, end):
    """Killed or ended by Ctrl-C at any step; a row that a kill tore is taken off."""
    interrupted(tmp_path, monkeypatch, method, at, end)
    assert end is not errors.ImageError or (tmp_path / "toy.state").exists()
    if end is Killed and (tmp_path / "log.csv").exists():
        with (tmp_path / "log.csv").open("a") as file:
            file.write("6,to")
    again, (folder, trained) = phase(), whole
    train(tmp_path, of=again)
    for file in ("log.csv", "marks.csv"):
        assert rows(tmp_path, file) == rows(folder, file)
    assert steps(tmp_path) == [*"123456"]
    assert torch.equal(again.module.weight, trained.module.weight)


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_a_run_that_is_ended_says_where_it_stands(tmp_path, monkeypatch, end):
    output = io.StringIO()
    console = Console(file=output, width=40)
    interrupted(tmp_path, monkeypatch, (loop._Run, "_backward"), 4, end, console=console)
    stopped = "toy: stopped after step 3; the same command goes on from there"
    assert output.getvalue().splitlines()[-1] == stopped
    train(tmp_path)
    assert steps(tmp_path) == [*"123456"]


def test_a_name_reaches_no_terminal_as_markup_or_control_characters(tmp_path):
    output = io.StringIO()
    console = Console(file=output, width=400, force_terminal=True)
    train(tmp_path, of=phase(f"[red]{EVIL}"), console=console)
    assert "[red]^[]0;owned^G" in output.getvalue()
    assert reached(output.getvalue()) == []


def test_an_unfinished_run_of_another_version_is_refused(tmp_path):
    torch.save({"step": 2, "module": {}}, tmp_path / "toy.state")
    with pytest.raises(errors.MmspecError, match=rf"^{tmp_path} has .* begin anew in another"):
        train(tmp_path)


def toy(gradients):
    """A phase of three batches a step, whose loss has the gradient x; records each gradient."""
    module = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(module.weight)
    module.weight.register_post_accumulate_grad_hook(
        lambda p: gradients.append(float(p.grad[0, 0]))
    )

    def loss(batch):
        return (module.weight * batch.x).sum()

    return Phase("toy", module, [(module, 1e-3)], loss, [numbers()], numbers(), step_samples=3)


def test_a_step_has_the_mean_gradient_of_its_samples(tmp_path, monkeypatch):
    """And every batch random numbers of its own."""
    taken, seeds, trained, real = [], [], toy([]), Optimizer.step

    def loss(batch):
        if torch.is_grad_enabled():
            seeds.append(torch.initial_seed())
        return trained.loss(batch)

    def recorded(optimizer):
        taken.append(float(trained.module.weight.grad[0, 0]))
        real(optimizer)

    monkeypatch.setattr(Optimizer, "step", recorded)
    train(tmp_path, steps=2, of=replace(trained, loss=loss))
    assert len(set(seeds)) == len(seeds) == 6
    assert taken == [pytest.approx((0 + 1 + 2) / 3), pytest.approx((3 + 4 + 5) / 3)]


def test_a_run_ended_within_a_step_takes_its_batches_again(tmp_path, monkeypatch):
    whole, gradients = toy([]), []
    (tmp_path / "whole").mkdir()
    train(tmp_path / "whole", steps=4, of=whole)
    # The 8th batch is the second of the third step.
    interrupted(
        tmp_path, monkeypatch, (loop._Run, "_backward"), 8, of=toy([]), steps=4, seconds=0.0
    )
    again = toy(gradients)
    train(tmp_path, steps=4, of=again)
    assert gradients[0] == 6.0, "the third step begins with its first batch"
    assert torch.equal(again.module.weight, whole.module.weight)


def test_the_learning_rate_rises_for_100_steps_and_falls_to_the_end():
    places = [(0, 0.0), (49, 0.0), (99, 0.5), (999, 1.0)]
    shares = [rate_share(*place, 0.02) for place in places]
    assert shares == pytest.approx([0.01, 0.5, 0.02 + 0.98 * 0.5, 0.02])


@pytest.mark.parametrize("shape", [(24, 8), (8, 24)])
def test_muon_in_float32_takes_the_steps_of_pytorchs(shape):
    torch.manual_seed(0)
    start, gradients = torch.randn(shape), torch.randn(3, *shape)
    ends = []
    for kind in (torch.optim.Muon, Float32Muon):
        weight = nn.Parameter(start.clone())
        muon = kind([weight], lr=0.1, weight_decay=0.02, adjust_lr_fn=UPDATE_SIZE)
        for gradient in gradients:
            weight.grad = gradient.clone()
            muon.step()
        ends.append(weight.detach())
    torch.testing.assert_close(*ends, atol=0.003, rtol=0)
    assert (ends[0] - start).abs().mean() > 0.02


def test_training_keeps_the_best(tmp_path, monkeypatch):
    mine, states, values = phase(every=1), [], iter([1.0, 3.0, 2.0, 2.5, 2.0])

    def evaluate(_):
        states.append(mine.module.weight.detach().clone())
        return {"value": next(values)}

    monkeypatch.setattr(Judge, "evaluate", evaluate)
    train(tmp_path, steps=4, of=mine)
    assert not torch.equal(states[1], states[-1])
    assert torch.equal(mine.module.weight, states[1])


def test_a_full_gpu_is_an_error_that_says_what_to_do(tmp_path):
    def loss(_):
        raise torch.OutOfMemoryError

    with pytest.raises(errors.BackendError, match="toy: memory is full: use a smaller --batch"):
        train(tmp_path, of=replace(phase(), loss=loss))


def test_a_loss_that_is_no_number_leaves_the_last_good_state(tmp_path, monkeypatch):
    interrupted(tmp_path, monkeypatch, (Log, "show"), 4)
    good = (tmp_path / "toy.state").read_bytes()
    wrong = replace(phase(), loss=lambda _: torch.tensor(float("nan")))
    with pytest.raises(errors.MmspecError, match=r"diverged: loss nan at step \d .*state.* lower"):
        train(tmp_path, of=wrong)
    assert (tmp_path / "toy.state").read_bytes() == good
