"""Training drafts: they read what decoding reads, become checkpoints, and learn what is said."""

import types
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from training_supply import Killed, interrupt
from transformers import LlavaForConditionalGeneration

import factory
from mmspec import errors
from mmspec_torch.backend import TorchBackend
from mmspec_torch.train import log, loop
from mmspec_torch.train.distill.loss import Loss, truth
from mmspec_torch.train.distill.method import Method
from mmspec_torch.train.distill.teacher import Teacher
from mmspec_torch.train.drafts import export, main
from mmspec_torch.train.drafts.seats import seats
from mmspec_torch.train.drafts.student import Shape, read_student, untrained
from mmspec_torch.train.drafts.training import Training, _left

TINY = Shape(layers=1, width=32, heads=2, inner=48, positions=1024)
CE = Method(Loss("ce"), gamma=3, every=2)
STEPS = loop.Budget(steps=6)


def columns(ids, learned, *images):
    marks = torch.zeros(1, len(ids), dtype=torch.bool)
    marks[0, learned] = True
    return types.SimpleNamespace(
        ids=torch.tensor([ids]), learned=marks, images=(images,), lengths=(len(ids),)
    )


@pytest.mark.parametrize(
    ("positions", "ids", "places"),
    [
        (0, [5, 6, 99, 7, 99, 8, 9], []),
        (1, [5, 6, 99, 7, 99, 8, 9], [2, 4]),
        (2, [5, 6, 99, 99, 7, 99, 99, 8, 9], [2, 3, 5, 6]),
    ],
)
def test_images_take_a_drafts_own_number_of_columns(positions, ids, places):
    whole = columns([5, 6, 3, 3, 3, 3, 7, 3, 3, 3, 3, 8, 9], [1, 6, 12], (2, 6), (7, 11))
    made = seats(whole, positions, 99)
    assert made.ids.tolist() == [ids]
    assert made.places.nonzero()[:, 1].tolist() == places
    assert made.ids.flatten()[made.learned].tolist() == [6, 7, 9]
    assert made.following.tolist() == list(range(len(ids) - 1))


def student_of(supply, positions, seed=0):
    """A draft whose every tensor is one that float16 holds."""
    vision = supply.teacher.config.vision
    text = TINY.text(supply.teacher.config)
    made = untrained(text, seed, vision.hidden_size if positions else 0, positions)
    with torch.no_grad():
        for weight in made.parameters():
            weight.copy_((5 * weight if weight.ndim > 1 else weight).half())
    return made


def logits_of(training, record):
    """What a student says after learned columns of a conversation with images."""
    lessons = replace(training.supply, shown=True).held_out
    with torch.no_grad():
        lesson, shown = training._read(lessons.batch([record]))
        return training._said(lesson, shown)


def pictured(supply):
    return next(record for record in supply.held_out.records() if record.images > 1)


def test_an_exported_draft_says_the_same_when_decoding(supply, tmp_path):
    student = student_of(supply, supply.teacher.config.image_tokens)
    export.save(student, supply.teacher.directory, tmp_path)
    ours = logits_of(Training(student, supply, CE, main.TUNING), pictured(supply))
    loaded = Teacher(tmp_path, "cpu", "float32")
    lessons = replace(supply.held_out, is_stored=False)
    theirs = truth(loaded.lesson(lessons.batch([pictured(supply)])), loaded.output).log_p
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    assert loaded.model.tower == supply.teacher.model.tower, "features can be shared"


def test_transformers_reads_an_exported_draft(supply, tmp_path):
    student = student_of(supply, supply.teacher.config.image_tokens)
    export.save(student, supply.teacher.directory, tmp_path)
    model, report = LlavaForConditionalGeneration.from_pretrained(
        tmp_path, dtype=torch.float32, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    ids = torch.tensor([[1, 40, 41, 42]])
    with torch.no_grad():
        theirs = model(input_ids=ids).logits[0].log_softmax(-1)
        whole = columns(ids[0].tolist(), [0, 1, 2, 3])
        ours = Training(student, supply, CE, main.TUNING)._said(whole, [])
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_a_text_draft_is_read_back_as_it_was(supply, tmp_path):
    student = student_of(supply, 0)
    export.save(student, supply.teacher.directory, tmp_path)
    again = read_student(tmp_path, supply.teacher.config, 0)
    ours, theirs = (
        logits_of(Training(each, supply, CE, main.TUNING), pictured(supply))
        for each in (student, again)
    )
    assert torch.equal(ours, theirs)
    assert TorchBackend().load(tmp_path, device="cpu").config.vision is None


def test_a_draft_that_is_the_target_keeps_every_guess(supply):
    config = supply.teacher.config
    twin = read_student(supply.teacher.directory, config, config.image_tokens)
    score = Training(twin, replace(supply, shown=True), CE, main.TUNING).score()
    assert score.acceptance == [1.0] * 3


def made(supply, out, names=("language",), way=None):
    out.mkdir(exist_ok=True)
    way = way or main.Way(CE, STEPS)
    with log.opened(out / "log.csv", Console(quiet=True)) as opened:
        baselines = main.Baselines(supply, TINY, way, out)
        for name in names:
            baselines.make(name, opened)
    return {name: load_file(out / name / "model.safetensors") for name in names}


def test_the_four_baselines_come_from_one_another(supply, tmp_path):
    tensors = made(supply, tmp_path, main.BASELINES)
    word = "model.layers.0.mlp.up_proj.weight"
    inner = "model.language_model.layers.0.mlp.up_proj.weight"
    assert torch.equal(tensors["language"][word], tensors["llava"][inner])
    assert not torch.equal(tensors["pretrained"][word], tensors["finetuned"][word])
    stages = [line.split(",")[1] for line in (tmp_path / "log.csv").read_text().splitlines()[1:]]
    assert [s for s in stages if "/" not in s] == [
        *["pretrained pretraining"] * 6,
        *["finetuned tuning"] * 6,
        "llava projector",
        *["llava tuning"] * 6,
    ]
    assert made(supply, tmp_path, main.BASELINES).keys() == tensors.keys(), "nothing is made anew"
    for name in main.BASELINES:
        assert TorchBackend().load(tmp_path / name, device="cpu").config.text.num_hidden_layers == 1


def test_the_projector_stage_leaves_the_llama_alone(supply, tmp_path):
    start = student_of(supply, 4)
    before = {name: tensor.clone() for name, tensor in start.state_dict().items()}
    with log.opened(tmp_path / "log.csv", Console(quiet=True)) as opened:
        main.train(start, [main.PROJECTOR], supply, main.Way(CE, STEPS), tmp_path / "out", opened)
    changed = {
        name for name, tensor in start.state_dict().items() if (tensor != before[name]).any()
    }
    assert changed
    assert all(name.startswith("projector.") for name in changed)


def test_an_interrupted_draft_ends_at_the_same_weights(supply, tmp_path, monkeypatch):
    way = main.Way(replace(CE, loss=Loss("kl"), on_policy=0.5, rate=0.2), STEPS, pool=4)
    whole = made(supply, tmp_path / "whole", ["llava"], way)["llava"]
    with monkeypatch.context() as patch:
        patch.setattr(log.Log, "show", interrupt)
        with pytest.raises(Killed):
            made(supply, tmp_path / "cut", ["pretrained"], way)
        with pytest.raises(Killed):
            made(supply, tmp_path / "cut", ["llava"], way)
    made(supply, tmp_path / "cut", ["pretrained"], way)
    with monkeypatch.context() as patch:
        patch.setattr(log.Log, "show", interrupt)
        with pytest.raises(Killed):
            made(supply, tmp_path / "cut", ["llava"], way)
    again = made(supply, tmp_path / "cut", ["llava"], way)["llava"]
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_a_student_goes_on_from_where_it_was_cut(supply):
    """Its continuation is what it says greedily, an image that comes later left out."""
    student = student_of(supply, 4)
    supply = replace(supply, shown=True)
    training = Training(student, supply, replace(CE, loss=Loss("kl")), main.TUNING)
    record = pictured(supply)
    lesson, shown = training._read(supply.held_out.batch([record]))
    torch.manual_seed(0)
    strayed, left = training._strayed(lesson, shown)
    assert len(left) == len(strayed.images[0])
    with torch.no_grad():
        said = training._said(strayed, left).argmax(-1)
    added = strayed.ids[0][strayed.learned[0]][1:]
    assert added.tolist() == said[:-1].tolist()
    expected = supply.teacher.states(strayed.embeddings)
    torch.testing.assert_close(strayed.states, expected)


def test_images_that_were_cut_off_are_not_shown():
    shown = [torch.tensor(number) for number in range(5)]
    left = _left(shown, [(1, 2, 3), (4, 5)], [(1, 2), ()])
    assert [int(each) for each in left] == [0, 1]


def test_a_student_learns_its_target(supply, tmp_path):
    student = student_of(supply, 0)
    way = main.Way(replace(CE, loss=Loss("kl"), rate=5e-3, every=40), loop.Budget(steps=80))
    with log.opened(tmp_path / "log.csv", Console(quiet=True)) as opened:
        main.train(student, [main.TUNING], supply, way, tmp_path / "out", opened)
    rows = (tmp_path / "log.csv").read_text().splitlines()[1:]
    losses = [float(row.split(",")[3]) for row in rows if "held-out" not in row]
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])


def test_drafts_that_cannot_be_are_refused(supply, tmp_path):
    config = supply.teacher.config
    other = factory.tiny_llama(tmp_path / "other", vocab_size=384)
    with pytest.raises(errors.UsageError, match=r"has 384 tokens, the target 320"):
        read_student(other, config, 0)
    with pytest.raises(errors.UsageError, match="cannot be divided among 3 heads"):
        Shape(width=64, heads=3).text(config)
    with pytest.raises(errors.UsageError, match=r"--pool 5: the grid divides into"):
        main.Way(CE, STEPS, pool=5).positions(config)
    stranger = factory.tiny_llava(tmp_path / "stranger", seed=5)
    with pytest.raises(errors.UsageError, match="another vision tower than the target"):
        main.same_tower(stranger, supply)
