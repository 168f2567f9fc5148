"""transformers as a peer: it answers what this project answers, and its clock is honest."""

import pytest

from mmspec_bench.compare.run_mmspec import Mmspec
from mmspec_bench.compare.run_transformers import Transformers
from mmspec_bench.compare.script_io import Clock, Task

OPTIONS = [{}, {"draft_tokens": 3}, {"lookup": 10}]


@pytest.fixture
def question(tmp_path):
    from PIL import Image

    Image.new("RGB", (40, 30), "red").save(tmp_path / "red.png")
    return [{"image": str(tmp_path / "red.png")}, {"text": "what is this?"}]


def task(pair_paths, drafts, **options):
    model, draft = map(str, pair_paths)
    return Task(model, draft if drafts else None, "cpu", "float32", options, 12, {})


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "assistant", "lookup"])
def test_transformers_answers_as_this_project_does(pair_paths, question, options):
    if "lookup" in options:  # it may propose an image's positions, which `generate` then misses
        question = [{"text": "what is this? what is that?"}]
    ours = Mmspec(task(pair_paths, True, backend="torch", drafting="M", gamma=3, exact="auto"))
    expected, rounds = ours.answer(question, Clock())
    assert 1 < rounds <= len(expected) + 1
    theirs = Transformers(task(pair_paths, "draft_tokens" in options, **options))
    clock = Clock()
    tokens, forwards = theirs.answer(question, clock)
    assert tokens == expected
    assert forwards == len(clock.events)
    assert clock.events[-1][0] in (len(tokens), len(tokens) + 1)
    assert ours.describe()["exact_mode"] == "auto"
    if not options:
        assert [count for count, _ in clock.events] == list(range(1, len(clock.events) + 1))
    assert theirs.describe()["dtype"] == "float32"
