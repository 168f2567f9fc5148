"""Every stage of every recipe of the bundled pair, for 20 steps; batches without an image."""

from pathlib import Path

import pytest
import torch

from mmspec_train.mini import recipe, stages
from mmspec_train.run.machine import Machine
from mmspec_train.settings import STAGES, Budget
from support.teacher_data import quiet_log

STEPS = 20


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
