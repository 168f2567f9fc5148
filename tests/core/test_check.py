"""`check`: identical pairs, near-ties and bugs are told apart."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mmspec.chat.options import Options
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.diagnostics.check import NEAR_TIES, Place, check, diverged, place_after
from mmspec.diagnostics.prompts import user_prompt
from mmspec_bench.prompts import world_prompts
from support.stand_ins import Letters, Meddler

OPTIONS = Options(drafting="MT", gamma=3, max_new_tokens=24)


def test_speculative_answers_are_found_identical(pair_engine):
    report = check(pair_engine, world_prompts(2, size=32), OPTIONS)
    assert (report.outcome, report.exit_code) == ("identical", 0)
    assert [each.tokens for each in report.comparisons] == [24, 24]
    assert all(each.drafting == "MT" for each in report.comparisons)
    assert json.loads(json.dumps(report.as_dict()))["comparisons"][0]["outcome"] == "identical"


def test_a_wrong_token_is_a_bug_with_its_place_and_gap(pair_engine, monkeypatch):
    model = pair_engine.target.model
    original = type(model).open_target
    monkeypatch.setattr(
        type(model), "open_target", lambda *a: Meddler(original(*a), wrong=77, length=40)
    )
    report = check(pair_engine, [user_prompt("What is in the picture?")], OPTIONS)
    (comparison,) = report.comparisons
    assert (report.outcome, report.exit_code) == ("bug", 1)
    assert comparison.divergence.second == 77
    assert comparison.divergence.shortfall >= comparison.divergence.gap > 0


@pytest.mark.parametrize("sampling", [Sampling(0.8), Sampling(1.0, 20, 0.9)], ids=["T", "cut"])
def test_sampled_answers_are_compared_token_for_token(pair_engine, sampling):
    options = replace(OPTIONS, sampling=sampling, seed=3)
    report = check(pair_engine, world_prompts(2, size=32), options)
    assert report.outcome == "identical"
    assert all(each.drafted for each in report.comparisons)


def test_a_place_has_the_noise_of_the_answer(pair_engine):
    """What check holds a divergence to is what the loop has chosen by."""
    options = replace(OPTIONS, sampling=Sampling(1.0), seed=3, drafting="none")
    prompt = user_prompt("What is in the picture?")
    chat = pair_engine.chat(options)
    for _ in chat.send(prompt.message):
        pass
    tokens = chat.answer.token_ids
    for at in range(6):
        place = place_after(pair_engine, prompt.message, tokens[:at], options)
        assert int(place.scores()[0].argmax()) == tokens[at]


HOT = Sampling(1.0)


@pytest.mark.parametrize(("slack", "expected"), [(5e-5, "near-tie"), (5e-3, "bug")])
def test_a_sampled_near_tie_is_one_of_logits_with_their_noise(slack, expected):
    """The second token is moved to within `slack` of the first, far away as its own logit is."""
    noise = Noise(2, 9)
    logits = np.array([3.0, 0.0, 0.0, -1.0], dtype=np.float32)
    scores, _ = Place(logits, HOT, noise).scores()
    logits[1] += scores.max() - scores[1] - slack
    place = Place(logits, HOT, noise)
    first = int(place.scores()[0].argmax())
    found = diverged([first], [1], place, Letters())
    assert found.gap == found.shortfall == pytest.approx(slack, rel=0.1)
    assert found.outcome(NEAR_TIES["float32"]) == expected


@pytest.mark.parametrize(
    "sampling", [Sampling(1.0, top_k=2), Sampling(1.0, top_p=0.75)], ids=["top-k", "top-p"]
)
@pytest.mark.parametrize(
    ("third", "expected"), [(-2e-5, "near-tie"), (-1.0, "bug")], ids=["at the edge", "beyond"]
)
def test_what_rounding_may_cut_off_is_a_near_tie_however_the_noise_falls(sampling, third, expected):
    """The third token is kept or not by a rounding, and its noise makes it the winner."""
    second = np.log(0.25 / 0.5) if sampling.top_p < 1 else np.log(0.5)
    logits = np.array([0.0, second, second + third], dtype=np.float32)
    winner = lambda n: int(Place(logits, HOT, Noise(1, n)).scores()[0].argmax())  # noqa: E731
    noise = Noise(1, next(n for n in range(1000) if winner(n) == 2))
    place = Place(logits, sampling, noise)
    kept = int(np.where([True, True, False], place.scores()[0], -np.inf).argmax())
    found = diverged([kept], [2], place, Letters())
    assert found.outcome(NEAR_TIES["float32"]) == expected
    assert (found.shortfall is None) == (expected == "bug")
