"""`parity`: equal backends pass, unequal ones fail at the stage where they part."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.diagnostics.parity import StageArrays, agreements, differences, parity
from mmspec.diagnostics.prompts import user_prompt
from mmspec.errors import UsageError
from mmspec_bench.prompts import world_prompts
from support.stand_ins import Letters

OPTIONS = Options(max_new_tokens=8, gamma=2)
STAGES = ["pixels", "vision features", "projected features", "prefill logits"]


def loading(draft="none"):
    return lambda backend, directory: load(str(directory), draft, backend=backend)


PROMPTS = [
    world_prompts(1, size=32)[0],
    world_prompts(1, size=32, tasks=["spot"])[0],
    user_prompt("What is it?"),
]


def test_both_backends_pass_on_one_checkpoint_with_a_draft(pair_paths):
    target, draft = pair_paths
    report = parity(loading(str(draft)), target, ["torch", "mlx"], PROMPTS, OPTIONS)
    assert report.passed
    assert report.exit_code == 0
    first, second, text = report.port["mlx"]
    assert [each.stage for each in first.differences] == STAGES
    assert [each.stage for each in text.differences] == STAGES[3:]
    assert [answer.kind for answer in second.answers] == ["plain", "speculative"]
    assert all(answer.outcome == "identical" for answer in second.answers)
    assert first.differences[0].largest == 0
    assert json.loads(json.dumps(report.as_dict()))["passed"] is True


def test_quantization_error_is_told_apart_from_port_error(mlx_path, llava_path):
    report = parity(
        loading(),
        mlx_path,
        ["torch", "mlx"],
        PROMPTS[:1],
        OPTIONS,
        reference=llava_path,
    )
    (ported,), (quantized,) = report.port["mlx"], report.quantization
    assert report.passed
    assert report.quantized
    for stage in (1, 2, 3):
        assert ported.differences[stage].relative < 1e-5
        assert quantized.differences[stage].relative > 1e-3
        assert quantized.differences[stage].passed


def test_a_reference_needs_packed_weights(llava_path):
    with pytest.raises(UsageError, match="not quantized"):
        parity(loading(), llava_path, ["torch", "mlx"], PROMPTS, OPTIONS, reference=llava_path)


@pytest.mark.parametrize("names", [["torch"], ["torch", "torch"]])
def test_one_backend_is_not_enough(llava_path, names):
    with pytest.raises(UsageError, match="two or more"):
        parity(loading(), llava_path, names, PROMPTS, OPTIONS)


ARRAYS = {stage: np.array([1.0, -2.0], dtype=np.float32) for stage in STAGES}
NEAR, CLEAR = (np.array([0, 0, 1, 0, gap], np.float32) for gap in (1 - 5e-5, 0.5))
RESULT = StageArrays(ARRAYS, {"plain": [1, 2, 3]}, [CLEAR, NEAR, CLEAR])


@pytest.mark.parametrize("stage", STAGES)
def test_the_stage_that_is_off_is_the_one_that_fails(stage):
    off = ARRAYS | {stage: np.array([1.001, -2], np.float32)}
    failed = [each.stage for each in differences(ARRAYS, off, 1e-4) if not each.passed]
    assert failed == [stage]


def test_pixels_must_be_equal():
    off = ARRAYS | {"pixels": np.array([1 + 1e-6, -2], np.float32)}
    assert [each.passed for each in differences(ARRAYS, off, 1e-4)] == [False, True, True, True]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_far(value):
    array = np.array([value, 1.0], dtype=np.float32)
    (difference,) = differences({"x": np.ones(2, np.float32)}, {"x": array}, 1e-4)
    assert not difference.passed
    assert json.loads(json.dumps(difference.largest)) > 1e38


@pytest.mark.parametrize(
    ("tokens", "position", "passed"),
    [
        ([1, 2, 3], None, True),
        ([1, 4, 3], 1, True),
        ([1, 0, 3], 1, False),
        ([1, 2, 4], 2, False),
        ([1, 2], 2, False),
    ],
    ids=["identical", "near-tie", "another token", "clear gap", "ended"],
)
def test_answers_may_part_only_at_a_near_tie(tokens, position, passed):
    other = replace(RESULT, answers={"plain": tokens})
    (answer,) = agreements(RESULT, other, 1e-4, Letters())
    assert answer.passed == passed
    assert (answer.divergence and answer.divergence.position) == position
