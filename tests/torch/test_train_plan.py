"""Plans of trainings: sizes and operations against counts by hand, without any weights."""

import json
from functools import partial

import pytest

from mmspec.ground.errors import UsageError
from mmspec_train.data.plan import GPUS, plan, rates
from mmspec_train.drafts.train_drafts import planned_draft
from mmspec_train.heads.train_heads import planned_head
from mmspec_train.settings import (
    Budget,
    DataSettings,
    HeadMethodSettings,
    HeadShape,
    LlamaShape,
)

EAGLE = 4 * 4096**2 + 3 * 4096 * 11008 + 4096 + 2 * 4096**2 + 4096
"""Parameters of an EAGLE head of LLaVA-1.5-7B, counted by hand."""


@pytest.fixture
def settings(tmp_path):
    """A card without weights, and 400 conversations of 100 and 20 tokens."""
    turns = [{"from": "human", "value": "x" * 400}, {"from": "gpt", "value": "y" * 80}]
    (tmp_path / "data.json").write_text(json.dumps([{"conversations": turns}] * 400))
    data = (tmp_path / "data.json",)
    return DataSettings("llava-1.5-7b", data, answers="dataset", samples=300, batch=120)


def test_a_plan_is_what_the_shapes_say(settings):
    head = partial(planned_head, "eagle", HeadShape(), HeadMethodSettings(rollout=3))
    sizes = []
    lines = plan(
        "mine=100,1,80", settings, Budget(steps=600), lambda t: sizes.append(head(t)) or sizes[0]
    )
    assert sizes == [(EAGLE, 3, 32064)]
    assert lines[1] == "data: 300 conversations of 120 columns, 2.0 epochs"
    memory = 14.13 + (16 * EAGLE + 8 * 3 * 120 * 32064) / 1e9
    assert lines[2] == f"memory: {memory:.1f} GB of 80 GB: fits"
    assert lines[3].startswith("disk: 0.3 GB of hidden states")
    operations = 2 * 7.06e9 * 120 + 2 * 6 * EAGLE * (120 + 3 * 20)
    assert lines[4] == f"hours: {300 * operations / 3600e14:.1f}"


def test_the_targets_own_answers_cost_a_reading_of_its_weights_a_token(settings):
    own = DataSettings(**vars(settings) | {"answers": "target", "answer_tokens": 4000})
    planned = partial(planned_head, "msd", HeadShape(), HeadMethodSettings())
    hours = []
    for bandwidth in ("0.01", "1000000000"):
        lines = plan(f"mine=1000000000,{bandwidth},80", own, Budget(minutes=6), planned)
        hours.append(float(lines[4].split()[1]))
    assert hours == [pytest.approx(0.1 + 300 * 4000 / 32 * 14.13 / 10 / 3600, abs=0.1), 0.1]


def test_a_plan_for_this_machine_has_rates_measured_here(settings):
    planned = partial(planned_head, "msd", HeadShape(), HeadMethodSettings())
    tflops, bandwidth, size = rates("here")
    assert 1e-4 < tflops < 1e3
    assert 1e-4 < bandwidth < 10
    assert size > 1
    assert not plan("here", settings, Budget(steps=6), planned)[0].startswith("plan on here: 0 ")


def test_a_draft_without_room_is_said(settings):
    planned = partial(planned_draft, LlamaShape(), None)
    lines = plan("tiny=100,1,8", settings, Budget(), planned)
    assert lines[2].endswith("does not fit: use a smaller --batch")


def test_a_gpu_is_named_or_measured():
    assert rates("H100") == GPUS["h100"]
    with pytest.raises(UsageError, match=r"unknown GPU 'h10': .*nearest: h100"):
        rates("h10")
    for wrong in ("mine=1,2", "mine=a,b,c"):
        with pytest.raises(UsageError, match="give a name, or"):
            rates(wrong)
