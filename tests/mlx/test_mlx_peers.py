"""mlx-lm as a peer: it answers what this project answers to text, and refuses images."""

import pytest

from mmspec.ground.errors import UsageError
from mmspec_bench.compare.run_mlx import MlxLm
from mmspec_bench.compare.run_mmspec import Mmspec
from mmspec_bench.compare.script_io import Clock, Task

PLAIN = {"backend": "mlx", "drafting": "none", "gamma": 5, "exact": "auto"}
QUESTION = [{"text": "what is this?"}]


def task(pair_paths, drafts, **options):
    model, draft = map(str, pair_paths)
    return Task(model, draft if drafts else None, "cpu", "float32", options, 12, {})


def test_a_model_of_text_alone_is_asked_by_its_own_template(llama_path):
    alone = Task(str(llama_path), None, "cpu", "float32", PLAIN, 12, {})
    expected, _ = Mmspec(alone).answer(QUESTION, Clock())
    assert MlxLm(alone).answer(QUESTION, Clock())[0] == expected


@pytest.mark.parametrize("drafts", [False, True], ids=["plain", "drafted"])
def test_mlx_lm_answers_as_this_project_does(pair_paths, drafts):
    ours = Mmspec(task(pair_paths, True, backend="mlx", drafting="T", gamma=3, exact="auto"))
    expected, _ = ours.answer(QUESTION, Clock())
    theirs = MlxLm(task(pair_paths, drafts, **({"draft_tokens": 3} if drafts else {})))
    clock = Clock()
    tokens, forwards = theirs.answer(QUESTION, clock)
    assert tokens == expected
    assert forwards <= clock.events[-1][0]
    assert (forwards < clock.events[-1][0]) == drafts
    assert theirs.describe()["dtype"] == "float32"


def test_an_image_is_refused(pair_paths):
    theirs = MlxLm(task(pair_paths, False))
    with pytest.raises(UsageError, match="sees no images"):
        theirs.answer([{"image": "a.png"}, {"text": "?"}], Clock())
