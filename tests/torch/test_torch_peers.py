"""transformers as a peer: it answers what this project answers, and its clock is honest."""

import pytest

from mmspec.bench.peers.ours import Ours
from mmspec.bench.peers.serve import Clock
from mmspec.bench.peers.wire import Question, Setup
from mmspec_torch.peer_transformers import TransformersPeer

OPTIONS = [{}, {"assistant": "whole", "assistant_tokens": 3}, {"assistant": "text"}, {"lookup": 10}]


@pytest.fixture
def question(tmp_path):
    from PIL import Image

    Image.new("RGB", (40, 30), "red").save(tmp_path / "red.png")
    return Question([{"image": str(tmp_path / "red.png")}, {"text": "what is this?"}], 12)


def setup(pair_paths, drafts, **options):
    model, draft = map(str, pair_paths)
    return Setup(model, draft if drafts else None, "cpu", "float32", options)


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "assistant", "text", "lookup"])
def test_transformers_answers_as_this_project_does(pair_paths, question, options):
    if "lookup" in options:  # it may propose an image's positions, which `generate` then misses
        question = Question([{"text": "what is this? what is that?"}], 12)
    ours = Ours(setup(pair_paths, True, backend="torch", drafting="M", gamma=3))
    expected, rounds = ours.answer(question, Clock())
    assert 1 < rounds <= len(expected) + 1
    peer = TransformersPeer(setup(pair_paths, "assistant" in options, **options))
    clock = Clock()
    said, forwards = peer.answer(question, clock)
    assert said == expected
    assert forwards == len(clock.events)
    assert clock.events[-1][0] in (len(said), len(said) + 1)
    if not options:
        assert [count for count, _ in clock.events] == list(range(1, len(clock.events) + 1))
    assert peer.describe()["dtype"] == "float32"
