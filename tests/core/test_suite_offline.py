"""The drawn suite: the papers' tasks and prompts, deterministic, never trained on."""

import pytest

from mmspec.ground.errors import UsageError
from mmspec_bench.suite.offline import OFFLINE_TASKS, offline
from mmspec_bench.suite.samples import FOLLOW_UPS, shard
from mmspec_world.prompts import REASONED

SIZE = 16


def texts(question):
    return "".join(p if isinstance(p, str) else "<image>" for p in question.parts)


def digests(item):
    return [(texts(q), [p.digest for p in q.pictures]) for q in item.read()]


@pytest.fixture(scope="module")
def few():
    return offline(SIZE, limit=3)


def test_samples_are_the_same_for_the_same_seed_and_others_for_another(few):
    again = offline(SIZE, limit=3)
    assert [digests(item) for item in few] == [digests(item) for item in again]
    other = offline(SIZE, limit=3, seed=3)
    assert not {item.name for item in few} & {item.name for item in other}
    assert digests(few[0]) != digests(other[0])


def test_questions_are_asked_as_the_papers_ask(few):
    first = {item.task: texts(item.read()[0]) for item in few}
    for task in ("chart", "text", "general", "hallucination"):
        assert first[task].startswith("<image>" + REASONED)
        assert first[task].count(REASONED) == 1
    assert first["spot"] == (
        "Explain the disparities between the first and second image. <image> <image> Difference:"
    )
    assert "Source Image: <image> Target Image: <image> Instruction:" in first["edit"]
    assert first["pororo"].endswith("<image> Caption #5:")
    assert first["video"] == "<image>" * 4 + "Provide a detailed caption for the provided video."


def test_second_turns_are_built_as_tabed_builds_them(few):
    by_task = {task: [item for item in few if item.task == task] for task in OFFLINE_TASKS}
    charts = by_task["chart"]
    for item, after in zip(charts, [*charts[1:], charts[0]], strict=True):
        assert digests(item)[1] == digests(after)[0]
    assert texts(by_task["spot"][0].read()[1]) == FOLLOW_UPS["story"]
    assert texts(by_task["detail"][0].read()[1]) == FOLLOW_UPS["summary"]
    assert texts(by_task["reasoning"][0].read()[1]) == FOLLOW_UPS["caption"]
    assert all(len(item.read()) == 1 for item in by_task["pororo"])
    assert all(len(item.read()) >= 2 for item in by_task["conversation"])


def test_shards_share_all_out_with_their_places():
    parts = [shard("abcdefg", f"{n}/3") for n in (1, 2, 3)]
    assert sorted(pair for part in parts for pair in part) == list(enumerate("abcdefg"))
    assert parts[1] == [(1, "b"), (4, "e")]


@pytest.mark.parametrize("word", ["", "0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_other_shards_are_refused(word):
    with pytest.raises(UsageError, match="such as 1/2"):
        shard("abc", word)
