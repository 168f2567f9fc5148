"""Recipes of papers: their figures, and how weights are updated by them."""

import csv
import itertools
import json
from collections import Counter
from dataclasses import dataclass, replace

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from mmspec.checkpoints.head_config import KINDS
from mmspec_train.data.conversation_file import ConversationFile
from mmspec_train.data.corpus import FileCorpus
from mmspec_train.data.record import PICTURE
from mmspec_train.distillation.training import stage_budget, train
from mmspec_train.drafts.draft_model import untrained_draft
from mmspec_train.drafts.draft_trainee import DraftTrainee
from mmspec_train.heads.train_heads import new_trainee
from mmspec_train.llama import llama_of_shape
from mmspec_train.recipes import RECIPES, UpdateRule
from mmspec_train.run import loop
from mmspec_train.run.loop import Phase
from mmspec_train.run.machine import Machine
from mmspec_train.run.optimizer import MATCHED, Float32Muon, Optimizer
from mmspec_train.settings import Budget, HeadMethodSettings, HeadShape, LlamaShape, MethodSettings
from support.teacher_data import Killed, prepare, quiet_log, with_settings


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("llava", [(0, 0.0, 0.0), (9, 0.015, 0.5), (9, 0.03, 1.0), (9, 0.515, 0.5), (9, 1.0, 0.0)]),
        ("msd", [(0, 0.0, 1 / 2000), (999, 0.0, 0.5), (1999, 0.0, 1.0), (9999, 0.75, 0.25)]),
        ("eagle", [(999, 0.0, 0.5), (9999, 0.5, 0.5), (9999, 1.0, 0.0)]),
        ("mini", [(0, 0.0, 0.01), (49, 0.0, 0.5), (99, 0.5, 0.02 + 0.98 * 0.5), (999, 1.0, 0.02)]),
    ],
)
def test_the_learning_rate_rises_and_falls_as_in_the_paper(name, points):
    for step, progress, share in points:
        assert RECIPES[name].rule.rate_share(step, progress) == pytest.approx(share)


@pytest.mark.parametrize(
    ("clip_by", "expected"),
    [
        ("group", [[0.6, 0.8], [1.0]]),
        ("norm", [[3 / 13, 4 / 13], [12 / 13]]),
        ("value", [[1, 1], [1]]),
    ],
)
def test_gradients_are_clipped_by_group_by_norm_or_by_value(clip_by, expected):
    parts = [nn.ParameterList([nn.Parameter(torch.zeros(size))]) for size in (2, 1)]
    optimizer = Optimizer([(part, 1.0) for part in parts], UpdateRule(clip_by=clip_by))
    for part, gradient in zip(parts, ([3.0, 4.0], [12.0]), strict=True):
        part[0].grad = torch.tensor(gradient)
    optimizer._clip()
    for part, gradient in zip(parts, expected, strict=True):
        assert part[0].grad.tolist() == pytest.approx(gradient, abs=1e-4)


@pytest.mark.parametrize("shape", [(24, 8), (8, 24)])
def test_muon_in_float32_takes_the_steps_of_pytorchs(shape):
    torch.manual_seed(0)
    start, gradients = torch.randn(shape), torch.randn(3, *shape)
    ends = []
    for kind in (torch.optim.Muon, Float32Muon):
        weight = nn.Parameter(start.clone())
        muon = kind([weight], lr=0.1, weight_decay=0.02, adjust_lr_fn=MATCHED)
        for gradient in gradients:
            weight.grad = gradient.clone()
            muon.step()
        ends.append(weight.detach())
    torch.testing.assert_close(*ends, atol=0.003, rtol=0)
    assert (ends[0] - start).abs().mean() > 0.02


# Steps of several batches


@dataclass(frozen=True)
class Batch:
    x: Tensor


class Numbers:
    """Batches of one sample: 0, 1, 2 ..."""

    def batches(self, start):
        return (Batch(torch.full((1, 1), float(n))) for n in itertools.count(start))


def toy(batch, gradients):
    """A phase whose loss has the gradient x, which is recorded at every step."""
    module = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(module.weight)
    module.weight.register_post_accumulate_grad_hook(lambda p: gradients.append(float(p.grad)))
    rule = UpdateRule(batch=batch, clip=100.0)

    def loss(item):
        return (module.weight * item.x).sum()

    parts = [(module, 1e-3)]
    return Phase("toy", module, parts, loss, [Numbers()], Numbers(), rule=rule)


def run_toy(folder, phase, steps):
    with quiet_log(folder) as log:
        machine = Machine(torch.device("cpu"), 0, False, checkpoint_seconds=0.0)
        loop.run_phase(phase, Budget(steps=steps), machine, folder / "toy.state", log)
    return phase.module.weight.item()


def test_a_step_has_the_mean_gradient_of_its_samples(tmp_path, monkeypatch):
    stepped = []
    phase = toy(3, [])
    recorded = lambda _: stepped.append(phase.module.weight.grad.item())  # noqa: E731
    monkeypatch.setattr(Optimizer, "_clip", recorded)
    run_toy(tmp_path, phase, 2)
    assert stepped == [pytest.approx((0 + 1 + 2) / 3), pytest.approx((3 + 4 + 5) / 3)]


def test_a_run_ended_within_a_step_takes_its_batches_again(tmp_path, monkeypatch):
    whole = run_toy(tmp_path / "whole", toy(3, []), 4)
    real, calls = loop._Run._backward, itertools.count(1)

    def ending(self, batch):
        if next(calls) == 8:  # the second batch of the third step
            raise Killed
        return real(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Run, "_backward", ending)
        with pytest.raises(Killed):
            run_toy(tmp_path / "ended", toy(3, []), 4)
    seen = []
    assert run_toy(tmp_path / "ended", toy(3, seen), 4) == whole
    assert seen[0] == 6.0, "the third step begins with its first batch"


# Stages: rates, epochs and files


def llava_trainee(data, recipe="llava"):
    config = data.teacher.config
    text = llama_of_shape(LlamaShape(1, 32, 2, 48, 1024), config.text.vocab_size)
    model = untrained_draft(text, 0, config.vision.hidden_size, config.image_tokens)
    settings = MethodSettings(recipe=recipe, loss="ce", rate=2e-5, projector_rate=1e-3)
    return DraftTrainee.of(model, data, settings, ("projector", "tuning"))


def trainee_of(data, name):
    """A head or a draft that is trained by a recipe, with the recipe's own options."""
    recipe = RECIPES[name]
    if not recipe.trains_heads:
        return llava_trainee(data, name)
    options = {key: value for key, value in recipe.options.items() if key != "answers"}
    kind = name if name in KINDS else "msd"
    return new_trainee(kind, HeadShape(), HeadMethodSettings(recipe=name, **options), data)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_every_stage_of_a_recipe_learns_for_20_steps(data, tmp_path, monkeypatch, name):
    monkeypatch.setattr("mmspec_train.drafts.draft_trainee.PROJECTOR_SHARE", 1.0)
    trainee = trainee_of(data, name)
    with quiet_log(tmp_path) as log:
        train(trainee, Budget(steps=20), tmp_path / "out", log)
    with (tmp_path / "log.csv").open() as file:
        rows = Counter(row["stage"] for row in csv.DictReader(file))
    assert {rows[f"out {stage.name}".strip()] for stage in trainee.stages()} == {20}
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_without_a_budget_a_stage_lasts_its_epochs(data):
    [stage] = new_trainee("msd", HeadShape(), HeadMethodSettings(recipe="msd"), data).stages()
    conversations = len(data.batches("all").records())
    assert stage_budget(data, stage, Budget()).steps == round(40 * conversations / 4)
    assert stage_budget(data, stage, Budget(steps=7)).steps == 7
    both = replace(stage, contents=("text", "images"))
    smallest = min(len(data.batches(content).records()) for content in both.contents)
    assert stage_budget(data, both, Budget()).steps == round(40 * smallest / 4)
    assert stage_budget(data, replace(stage, epochs=0), Budget()).minutes == 20


def test_the_first_of_several_files_is_for_the_projector_alone(data, tmp_path):
    """As LLaVA has it: LCS-558k for the projector, then mix665k."""
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    files = []
    for name in ("lcs", "mix"):
        turns = [("human", f"<image>\nWhat is in {name}?"), ("gpt", "A square.")]
        value = {"image": "a.png", "conversations": [{"from": r, "value": v} for r, v in turns]}
        (tmp_path / f"{name}.json").write_text(json.dumps([value] * 40))
        files.append(ConversationFile(tmp_path / f"{name}.json", tmp_path))
    corpus = FileCorpus(tuple(files), plain_first=True)
    both = corpus, replace(corpus, split="held-out")
    read = replace(data, directory=tmp_path / "answers", corpora=both, needs_states=False)
    read = with_settings(read, samples=6, held_out=1, answers="dataset", cache_gb=0.0)
    prepare(read)
    projector, tuning = llava_trainee(read).stages()
    for stage, own in ((projector, 0), (tuning, 1)):
        records = read.batches("all", stage.files).records()
        assert {read.corpora[0].file_of(record.number) for record in records} == {own}
        assert len(records) == 3
        assert [is_caption(record, data.teacher) for record in records] == [own == 0] * 3


def is_caption(record, teacher):
    """True for an image and its caption as LLaVA's own code tokenizes them for its first stage."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(teacher.directory)
    caption = tokenizer("A square.\n", add_special_tokens=False).input_ids
    begin = [tokenizer.bos_token_id]
    return record.prompts == ((*begin, PICTURE),) and record.answers == (tuple(caption),)
