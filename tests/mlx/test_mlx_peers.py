"""mlx-lm as a peer: it answers what this project answers to text, and refuses images."""

from dataclasses import replace

import pytest

from mmspec.ground.errors import UsageError
from mmspec_bench.compare.run_mlx import load_mlx_lm
from mmspec_bench.compare.run_mmspec import load_mmspec
from mmspec_bench.compare.script_io import Clock, Task

PLAIN = {"backend": "mlx", "quantize": "none", "drafting": "none", "gamma": 5, "exact": "auto"}
QUESTION = [{"text": "what is this?"}]


def task(model, drafts=False, **options):
    draft = str(model) if drafts else None
    return Task(str(model), draft, "cpu", "float32", options, 12, {})


@pytest.mark.parametrize("drafts", [False, True], ids=["plain", "drafted"])
def test_mlx_lm_answers_as_this_project_does(llama_path, drafts):
    expected, _ = load_mmspec(task(llama_path, **PLAIN)).answer(QUESTION, Clock())
    theirs = load_mlx_lm(task(llama_path, drafts, **({"draft_tokens": 3} if drafts else {})))
    clock = Clock()
    tokens, forwards = theirs.answer(QUESTION, clock)
    assert tokens == expected
    assert forwards <= clock.events[-1][0]
    assert (forwards < clock.events[-1][0]) == drafts
    assert theirs.facts["dtype"] == "float32"


def test_images_models_that_see_and_other_devices_are_refused(llama_path, pair_paths):
    with pytest.raises(UsageError, match="models of text alone"):
        load_mlx_lm(task(pair_paths[0]))
    with pytest.raises(UsageError, match="unknown MLX device 'mps'"):
        load_mlx_lm(replace(task(llama_path), device="mps"))
    theirs = load_mlx_lm(task(llama_path))
    with pytest.raises(UsageError, match="sees no images"):
        theirs.answer([{"path": "a.png"}, {"text": "?"}], Clock())
