"""`check --across`: equal backends pass, unequal ones fail at the stage where they part."""

import numpy as np
import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.diagnostics import across as across_module
from mmspec.diagnostics.across import across
from mmspec.diagnostics.prompts import user_prompt
from mmspec_bench.prompts import world_prompts

BACKENDS = ["torch", "mlx"]
OPTIONS = Options(max_new_tokens=8, gamma=2)
STAGES = ["pixels", "vision features", "projected features", "prefill logits"]
TOKENS = ["plain tokens", "speculative tokens"]
WRONG = 77


def loading(draft="none"):
    return lambda backend, directory: load(str(directory), draft, backend=backend)


PROMPTS = [
    world_prompts(1, size=32)[0],
    world_prompts(1, size=32, tasks=["spot"])[0],
    user_prompt("What is it?"),
]


def test_quantization_error_is_told_apart_from_port_error(mlx_path, llava_path):
    report = across(loading(), mlx_path, BACKENDS, PROMPTS[:1], OPTIONS, reference=llava_path)
    assert report.passed
    for stage in (1, 2, 3):
        assert report.port["mlx"][stage].relative < 1e-5
        assert report.quantization[stage].relative > 1e-3
    assert all(stage.passed is None for stage in report.quantization)


@pytest.mark.parametrize("stage", STAGES)
def test_the_stage_that_is_off_is_the_one_that_fails(llava_path, monkeypatch, stage):
    """Pixels must be equal; other stages may differ by the tolerance of their dtype."""
    original, engines = across_module._arrays, []

    def changed(engine, prompt):
        engines.append(engine)
        for name, array in original(engine, prompt):
            error = 1e-6 if name == "pixels" else 1e-3
            yield name, array * np.float32(1 + error * (name == stage and len(engines) == 2))

    monkeypatch.setattr(across_module, "_arrays", changed)
    report = across(loading(), llava_path, BACKENDS, PROMPTS[:1], OPTIONS)
    assert [each.stage for each in report.port["mlx"] if not each.passed] == [stage]
    assert (report.passed, report.exit_code) == (False, 1)


@pytest.mark.parametrize("stage", TOKENS)
def test_answers_may_part_only_at_a_near_tie(pair_paths, monkeypatch, stage):
    target, draft = pair_paths
    original = across_module.answer_once

    def meddled(engine, message, options):
        answer = original(engine, message, options)
        if engine.backend.name == "mlx" and (options.drafting == "none") == (stage == TOKENS[0]):
            answer.token_ids[3] = WRONG
        return answer

    monkeypatch.setattr(across_module, "answer_once", meddled)
    arguments = loading(str(draft)), target, BACKENDS, PROMPTS[2:], OPTIONS
    report = across(*arguments)
    [failed] = [each for each in report.port["mlx"] if not each.passed]
    assert (failed.stage, report.exit_code) == (stage, 1)
    assert (failed.divergence.position, failed.divergence.second) == (3, WRONG)
    gap, shortfall = failed.divergence.gap, failed.divergence.shortfall
    assert gap < 0.9 * shortfall, "the wrong token is not the second likeliest"
    for threshold, passed in ((0.99 * shortfall, False), (1.01 * shortfall, True)):
        assert (failed.divergence.outcome(threshold) == "near-tie") == passed, "as check judges"
    monkeypatch.setitem(across_module.NEAR_TIES, "float32", 1.01 * shortfall)
    assert across(*arguments).passed
