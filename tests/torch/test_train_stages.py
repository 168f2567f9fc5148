"""Every stage of every recipe of the bundled pair, for 20 steps; batches without an image."""

from pathlib import Path

import pytest
import torch

import mmspec_world
from mmspec_train.mini import build, conversation, recipe, samples, stages
from mmspec_train.mini.tokenizer import train_tokenizer
from mmspec_train.run.loop import Phase, run_phase
from mmspec_train.run.machine import Machine
from mmspec_train.settings import STAGES, Budget
from support.teacher_data import quiet_log

STEPS = 20


class Texts:
    """Batches of text alone, which never meet the projector."""

    def __init__(self, tokenizer):
        sample = mmspec_world.sample("told", 1, split="train", size=48)
        encoded = conversation.encode(sample, tokenizer, 16, 2.0)
        self.batch = samples.collate_samples([encoded, encoded], 0)

    def batches(self, start):
        while True:
            yield self.batch


def test_batches_of_text_leave_a_projector_that_learns_alone_unchanged(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tokenizer = train_tokenizer(["a word"], 300)
    model = build.llava(recipe.TEST, recipe.TEST.target, tokenizer, 0)
    texts = Texts(tokenizer)
    assert not len(texts.batch.pixels)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    phase = Phase(
        "projector",
        model,
        build.parts(model, recipe.TEST.projector_rates),
        lambda batch, _: build.learned_loss(model, batch),
        [texts],
        texts,
    )
    machine = Machine(torch.device("cpu"), 0, False)
    with quiet_log(tmp_path) as log:
        run_phase(phase, Budget(steps=2), machine, tmp_path / "projector.checkpoint", log)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mini", "test"])
def test_every_stage_of_a_recipe_runs(tmp_path: Path, name: str) -> None:
    machine = Machine(torch.device("cpu"), 0, False)
    run = stages.PairRun(tmp_path, recipe.RECIPES[name], machine)
    budgets = {stage: Budget(steps=STEPS) for stage in STAGES}
    with quiet_log(tmp_path) as log:
        run.train_stages(STAGES, budgets, log)
    for stage in STAGES[1:]:
        assert (tmp_path / "log.csv").read_text().count(f",{stage},") == STEPS
    assert (run.checkpoint("target") / "model.safetensors").exists()
    assert (run.checkpoint("draft") / "model.safetensors").exists()
