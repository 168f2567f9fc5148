"""The synthetic world: determinism, the split, true answers and a judge that tells them."""

import hashlib
import itertools
import random
import re
import sys
import tomllib
from dataclasses import astuple
from pathlib import Path

import pytest

from mmspec_world import SCRIPTS, JudgedTurn, sample, wording
from mmspec_world.facts import Fact
from mmspec_world.split import KEY_SEPARATOR, split_of
from support.judge import judge

SEEDS = range(30)
TEXT_DIGESTS = {
    "chart": "76b60269aeac",
    "text": "c2f2a7c9882c",
    "general": "6a95e84c0dcd",
    "hallucination": "fe3d0bfe2017",
    "spot": "4947467158a2",
    "edit": "96f30901e323",
    "pororo": "833049d84675",
    "vist": "66be29150486",
    "conversation": "6c289bb389f3",
    "detail": "f5d068c0b8c3",
    "reasoning": "622df51bee0a",
    "caption": "b9da3a722a68",
    "science": "97e649b76d60",
    "video": "9d14db059f94",
    "chat": "c235b73a1e28",
    "swap": "71c72cb390a6",
    "told": "da3150b22feb",
    "drill": "b20f28d75887",
    "clip4": "46c4074d7ebe",
    "clip8": "07c47d1cb5ef",
    "clip16": "62daed21e3d7",
}
"""Digests of 40 samples of each split, without pixels, which depend on Pillow's version."""


def held_out_turns(task: str) -> list[JudgedTurn]:
    return [turn for seed in SEEDS for turn in sample(task, seed, split="held-out", size=8).turns]


def with_value(answer: str, fact: Fact, other: str) -> str:
    """Say another value wherever the answer says the right one."""
    for was, now in ((fact.value, other), (fact.value.capitalize(), other.capitalize())):
        answer = re.sub(rf"\b{was}\b", now, answer)
    return answer


@pytest.mark.parametrize("task", SCRIPTS)
def test_samples_are_those_that_published_models_were_trained_on(task):
    drawn = [
        sample(task, n, split=split, size=8) for split in ("train", "held-out") for n in range(40)
    ]
    texts = repr([(whole.key, [astuple(turn) for turn in whole.turns]) for whole in drawn])
    assert hashlib.sha256(texts.encode()).hexdigest()[:12] == TEXT_DIGESTS[task]


def test_every_phrase_is_said(monkeypatch):
    said = set()

    def recorded(rng: random.Random, phrase: str, **slots: str) -> str:
        said.add(phrase)
        return say(rng, phrase, **slots)

    say = wording.say
    for module in [module for name, module in sys.modules.items() if "mmspec_world" in name]:
        if hasattr(module, "say"):
            monkeypatch.setattr(module, "say", recorded)
    for task, seed in itertools.product(SCRIPTS, range(120)):
        sample(task, seed, split="train", size=8)
    table = Path(wording.__file__).with_name("phrases.toml").read_text(encoding="utf-8")
    sections = tomllib.loads(table)
    del sections["facts"]
    phrases = {f"{part}.{name}" for part, texts in sections.items() for name in texts}
    assert said == {phrase for phrase in phrases if not phrase.endswith(".forms")}


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
def test_the_judge_passes_every_answer_of_the_world(task):
    for turn in held_out_turns(task):
        for fact in turn.facts:
            assert fact.value in fact.options
            assert judge(fact, turn.answer), (fact, turn.answer)


@pytest.mark.parametrize("task", SCRIPTS)
def test_the_judge_fails_every_other_value(task):
    for turn in held_out_turns(task):
        for fact in turn.facts:
            for other in set(fact.options) - {fact.value}:
                wrong = with_value(turn.answer, fact, other)
                assert not judge(fact, wrong), (fact, wrong)


def test_the_judge_takes_the_last_statement_and_wants_one():
    fact = Fact("colour", "red", ("red", "blue"), (r"star is {}", r"{} star"))
    assert judge(fact, "The star is red.")
    assert judge(fact, "A blue star? No, the STAR is\nred.")
    assert not judge(fact, "The star is red. So it is a blue star.")
    assert not judge(fact, "I see a star, and red.")
    assert not judge(fact, "The star is reddish.")
    assert not judge(fact, "")
