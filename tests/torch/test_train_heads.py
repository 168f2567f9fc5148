"""Training heads: they compute what decoding computes, and learn what the target says."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from training_supply import Killed, interrupt, lesson_of

from mmspec import errors
from mmspec.heads.config import KINDS, read_head_config
from mmspec.sampling import Sampling
from mmspec.seam import Segment
from mmspec_torch.backend import TorchBackend
from mmspec_torch.heads.load import load_head
from mmspec_torch.train import log, loop
from mmspec_torch.train.distill import curriculum, heads
from mmspec_torch.train.distill.acceptance import Score, judged, rounds
from mmspec_torch.train.distill.lessons import Lessons
from mmspec_torch.train.distill.loss import DIVERGENCES, Loss, divergence, head_loss, said
from mmspec_torch.train.distill.method import Method
from mmspec_torch.train.heads import build
from mmspec_torch.train.heads.lesson import chosen, starts

DRAWN = Sampling(temperature=1.0)
HEADS = [(kind, "none") for kind in KINDS] + [("medusa", "mean"), ("hydra", "attention")]


def shaken(config, seed=0):
    """A head whose every tensor is random, so that nothing is left out by being zero."""
    head = build.untrained(config, seed)
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in head.parameters():
            spread = 0.1 if weight.ndim == 1 else weight.shape[-1] ** -0.5
            weight.add_(spread * torch.randn(weight.shape, generator=draws))
    return head


@pytest.mark.parametrize(("kind", "vision"), HEADS)
def test_a_trained_head_drafts_as_the_decoding_one(supply, tmp_path, kind, vision):
    config = build.head_config(kind, supply.teacher.config, slots=3, queries=3, vision=vision)
    head = shaken(replace(config, dtype="float32"))
    build.save(head, tmp_path / kind)
    record, _ = lesson_of(supply, lambda record: record.images > 1)
    exact = replace(supply.held_out, is_stored=False)
    lesson = supply.teacher.lesson(exact.batch([record]))
    loaded = load_head(tmp_path / kind, supply.teacher.model)
    begun = starts(lesson, 1)
    for column in begun.columns[0, [0, 1, -1]].tolist():
        ids, q = decoded(supply, record, lesson, loaded, column)
        ours = followed(supply, lesson, head, column, ids)
        torch.testing.assert_close(ours, q, atol=1e-5, rtol=1e-4)


def decoded(supply, record, lesson, loaded, column):
    """What the decoding drafter draws after a column, everything fed anew, and from what."""
    model = supply.teacher.model
    pixels = supply.held_out._pixels([record])
    features = [model.encode(image) for image in pixels]
    seen = [f for f, (_, end) in zip(features, lesson.images[0], strict=True) if end <= column + 1]
    target = model.open_target(DRAWN)
    drafter = loaded.open_drafter(target, DRAWN)
    segment = Segment(lesson.ids[0, : column + 1].tolist(), seen)
    target.extend(segment)
    drafter.extend([segment])
    draft = drafter.draft(3, [1.0], [0.3, 0.6, 0.9])
    return draft.ids, draft.q


def followed(supply, lesson, head, column, ids):
    """What the trained head says at each depth [3, V] when it is fed certain tokens."""
    fed = iter(ids)

    def follow(_feature):
        return supply.teacher.embed(next(fed).view(1, 1))

    with torch.no_grad():
        features = head(lesson, chosen(lesson, torch.tensor([[column]]), 3), follow)
    return said(features[:, 0, 0], supply.teacher.output).exp()


@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_head_is_read_back(supply, tmp_path, kind):
    config = build.head_config(kind, supply.teacher.config, slots=2)
    head = shaken(config)
    build.save(head, tmp_path)
    assert read_head_config(tmp_path) == config
    stored = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(stored[name], t.half()) for name, t in build.tensors(head).items())


@pytest.mark.parametrize(("epoch", "share"), [(1, 0), (20, 0), (21, 0.05), (39, 0.95), (40, 1)])
def test_images_come_in_by_the_schedule(epoch, share):
    assert curriculum.visual_share(epoch) == pytest.approx(share)
    assert curriculum.epoch_at((epoch - 0.5) / 40) == epoch


def test_divergences_are_what_they_are_called():
    draws = np.random.default_rng(0)
    p, q = draws.dirichlet(np.ones(7), size=(2, 4))
    targets = np.array([0, 3, 6, 2])
    expected = {
        "kl": (p * np.log(p / q)).sum(-1),
        "reverse-kl": (q * np.log(q / p)).sum(-1),
        "tv": 1 - np.minimum(p, q).sum(-1),
        "ce": -np.log(q[np.arange(4), targets]),
    }
    for name in DIVERGENCES:
        logs = (torch.tensor(each).log() for each in (p, q))
        ours = divergence(name, *logs, torch.tensor(targets))
        np.testing.assert_allclose(ours.numpy(), expected[name], rtol=1e-6)


def test_a_loss_weighs_depths_and_counts_only_what_can_be_judged(supply):
    _, lesson = lesson_of(supply)
    begun = starts(lesson, 3)
    wanted = torch.stack([lesson.at(lesson.states, begun.after(depth)) for depth in range(3)])
    output = supply.teacher.output
    both = Loss(feature=1.0, decay=0.5)
    assert head_loss(wanted, lesson, begun, output, both).item() == pytest.approx(0, abs=1e-5)
    wrong = wanted + 4 * begun.alive.unsqueeze(-1)
    only = Loss(token=0.0, feature=1.0, decay=0.5)
    assert head_loss(wrong, lesson, begun, output, only).item() == pytest.approx(3.5, abs=1e-4)
    first = wanted.clone()
    first[0] += 4
    shared = (1 + 0.5 + 0.25) ** -1
    assert head_loss(first, lesson, begun, output, only).item() == pytest.approx(3.5 * shared)
    astray = wanted + 4 * ~begun.alive.unsqueeze(-1)
    assert head_loss(astray, lesson, begun, output, only).item() == pytest.approx(0, abs=1e-5)


def test_rounds_walk_over_what_is_kept():
    assert list(rounds([5, 6, 7, 8, 20, 21], [1, 0, 0, 0, 0, 0])) == [5, 7, 8, 20, 21]
    assert list(rounds([5, 6, 7, 8, 20, 21], [3, 0, 0, 0, 1, 0])) == [5, 20]


def test_the_targets_own_states_are_kept_to_the_end(supply):
    score, gamma = Score(), 4
    for batch in supply.held_out.once():
        lesson = supply.teacher.lesson(batch)
        begun = starts(lesson, gamma)
        states = [lesson.at(lesson.states, begun.after(depth)) for depth in range(gamma)]
        judged(score, torch.stack(states), lesson, begun, supply.teacher.output)
    answers = [answer for record in supply.held_out.records() for answer in record.answers]
    assert score.agreement == score.acceptance == [1.0] * gamma
    assert score.tokens == sum(map(len, answers))
    assert score.rounds == sum(-(-len(answer) // (gamma + 1)) for answer in answers)


def trained(supply, out, **wanted):
    steps = wanted.pop("steps", 6)
    config = build.head_config("msd", supply.teacher.config)
    method = Method(depth=2, gamma=2, noise=0.2, on_policy=0.3, schedule="msd", **wanted)
    out.mkdir(exist_ok=True)
    with log.opened(out / "log.csv", Console(quiet=True)) as opened:
        heads.train(config, supply, method, loop.Budget(steps=steps), out, opened)
    return load_file(out / "model.safetensors")


def test_an_interrupted_head_ends_at_the_same_weights(supply, tmp_path, monkeypatch):
    whole = trained(supply, tmp_path / "whole", every=2, rate=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(log.Log, "show", interrupt)
        with pytest.raises(Killed):
            trained(supply, tmp_path / "cut", every=2, rate=0.5)
    before = (tmp_path / "cut" / "log.csv").read_text().splitlines()
    again = trained(supply, tmp_path / "cut", every=2, rate=0.5)
    after = (tmp_path / "cut" / "log.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in after if ",cut," in line] == [*"123456"]
    assert after[:4] == before[:4], "it goes on after step 2, where it was saved last"
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_training_ends_early_and_keeps_the_best(supply, tmp_path, monkeypatch):
    values = iter([1.0, 3.0, 2.0, 2.5, 9.0])
    monkeypatch.setattr(heads.Training, "look", lambda _: heads.Mark(next(values)))
    states = []
    write = loop._Run._write

    def noted(run, state, file):
        if file.suffix == ".best":
            states.append({name: tensor.clone() for name, tensor in state.items()})
        write(run, state, file)

    monkeypatch.setattr(loop._Run, "_write", noted)
    kept = trained(supply, tmp_path, steps=40, every=1, patience=2, rate=0.1)
    assert (tmp_path / "log.csv").read_text().count("held-out") == 4
    assert len(states) == 2
    assert all(torch.equal(kept[name], states[-1][name].half()) for name in kept)


def test_a_loss_that_is_no_number_leaves_the_last_good_state(supply, tmp_path, monkeypatch):
    monkeypatch.setattr(log.Log, "show", interrupt)
    with pytest.raises(Killed):
        trained(supply, tmp_path, every=2)
    good = (tmp_path / "training" / "state.checkpoint").read_bytes()
    monkeypatch.setattr(heads, "head_loss", lambda *_: torch.tensor(float("nan")))
    with pytest.raises(errors.MmspecError, match=r"diverged: loss nan at step 3 of \S+; .*state"):
        trained(supply, tmp_path, every=2)
    assert (tmp_path / "training" / "state.checkpoint").read_bytes() == good


def test_a_broken_sample_stops_training_with_its_name(supply, tmp_path, monkeypatch):
    def broken(*_):
        raise errors.ImageError("picture 7.png: damaged")

    monkeypatch.setattr(Lessons, "batch", broken)
    with pytest.raises(errors.ImageError, match=r"7\.png"):
        trained(supply, tmp_path)
    assert (tmp_path / "training" / "state.checkpoint").exists()


def test_a_head_learns_its_target(supply, tmp_path):
    marks = tmp_path / "marks.csv"
    out = tmp_path
    config = build.head_config("hydra", supply.teacher.config, slots=2)
    own = replace(supply, corpora=(supply.corpora[0],) * 2)
    method = Method(depth=2, gamma=2, rate=5e-3, every=100)
    with log.opened(out / "log.csv", Console(quiet=True)) as opened:
        heads.train(config, own, method, loop.Budget(steps=120), out, opened)
    rows_ = marks.read_text().splitlines()
    assert rows_[0].split(",")[:4] == ["step", "stage", "seconds", "value"]
    losses = [float(row.split(",")[3]) for row in (out / "log.csv").read_text().splitlines()[1:]]
    assert np.mean(losses[-10:]) < 0.95 * np.mean(losses[:10])


def test_choices_that_cannot_be_are_refused(supply):
    with pytest.raises(errors.UsageError, match="unknown loss 'kll'"):
        Loss("kll")
    with pytest.raises(errors.UsageError, match="unknown schedule"):
        Method(schedule="later")
    with pytest.raises(errors.UsageError, match="use kl with --on-policy"):
        Method(Loss("ce"), on_policy=0.5)
    with pytest.raises(errors.UsageError, match="unknown kind of head 'mds'"):
        build.head_config("mds", supply.teacher.config)
    assert TorchBackend.name == "torch"


def test_a_directory_is_for_one_training(supply, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(log.Log, "show", interrupt)
        with pytest.raises(Killed):
            trained(supply, tmp_path, every=2)
    with pytest.raises(errors.UsageError, match=r"--rate is 0\.002, but is now 1\.0: give .*--out"):
        trained(supply, tmp_path, every=2, rate=1.0)
    trained(supply, tmp_path, every=2)
    assert not (tmp_path / "training").exists()
    with pytest.raises(errors.UsageError, match="holds what was trained before"):
        trained(supply, tmp_path, every=2)
