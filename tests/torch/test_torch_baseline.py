"""transformers' `generate` as an arm: the same tokens as ours, clocked one by one."""

import pytest

from mmspec.bench.arms import BaselineArm, drafting_arm, load_baseline
from mmspec.bench.prompts import asked, drawn
from mmspec.engine import load
from mmspec.errors import UsageError
from mmspec.options import Options
from mmspec_torch.baseline import TransformersGenerate

OPTIONS = Options(max_new_tokens=12)


@pytest.mark.parametrize(
    "prompt",
    [drawn(1, size=32)[0], drawn(1, size=32, tasks=["spot"])[0], asked("What is it?")],
    ids=["one image", "two images", "text"],
)
def test_transformers_says_the_same_tokens(llava_path, prompt):
    engine = load(str(llava_path), "none", backend="torch")
    baseline = TransformersGenerate(llava_path)
    theirs = BaselineArm("transformers", engine, OPTIONS, baseline).answer(prompt)
    ours = drafting_arm(engine, OPTIONS, "none", 1).answer(prompt)
    assert theirs.tokens == ours.tokens
    assert theirs.timed_tokens == len(theirs.tokens) - 1
    assert theirs.seconds > 0


def test_packed_weights_are_refused(mlx_path):
    with pytest.raises(UsageError, match="MLX-quantized"):
        TransformersGenerate(mlx_path)


def test_an_unknown_baseline_is_named(llava_path):
    with pytest.raises(UsageError, match="unknown baseline 'vllm'"):
        load_baseline("vllm", llava_path, "cpu", "float32")
