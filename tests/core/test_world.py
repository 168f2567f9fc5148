"""The synthetic world: determinism, the split, true answers and a judge that tells them."""

import hashlib
import itertools
import re
from dataclasses import astuple

import pytest

from mmspec_world import SCRIPTS, sample
from mmspec_world.facts import Fact
from mmspec_world.split import KEY_SEPARATOR, split_of
from support.judge import judge

SEEDS = range(12)
TEXT_DIGEST = "c0044d77d81b772a"
"""Of 40 samples of each task and split, without pixels, which depend on Pillow's version."""


def with_value(answer: str, fact: Fact, other: str) -> str:
    """Say another value wherever the answer says the right one."""
    for was, now in ((fact.value, other), (fact.value.capitalize(), other.capitalize())):
        answer = re.sub(rf"\b{was}\b", now, answer)
    return answer


def test_samples_are_those_that_published_models_were_trained_on():
    digest = hashlib.sha256()
    for task, split, number in itertools.product(SCRIPTS, ("train", "held-out"), range(40)):
        drawn = sample(task, number, split=split, size=8)
        digest.update(repr((drawn.key, [astuple(turn) for turn in drawn.turns])).encode())
    assert digest.hexdigest()[:16] == TEXT_DIGEST


@pytest.mark.parametrize("task", SCRIPTS)
def test_no_held_out_content_is_trained_on(task):
    keys = {
        split: {
            key
            for seed in SEEDS
            for key in sample(task, seed, split=split, size=8).key.split(KEY_SEPARATOR)
        }
        for split in ("train", "held-out")
    }
    assert all(split_of(key) == split for split, chosen in keys.items() for key in chosen)
    assert keys["train"].isdisjoint(keys["held-out"])


@pytest.mark.parametrize("task", SCRIPTS)
def test_the_judge_passes_every_answer_of_the_world_and_fails_every_other_value(task):
    drawn = (sample(task, seed, split="held-out", size=8) for seed in SEEDS)
    for turn in (turn for each in drawn for turn in each.turns):
        for fact in turn.facts:
            assert fact.value in fact.options
            assert judge(fact, turn.answer), (fact, turn.answer)
            for other in set(fact.options) - {fact.value}:
                wrong = with_value(turn.answer, fact, other)
                assert not judge(fact, wrong), (fact, wrong)
