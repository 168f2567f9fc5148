"""`check`: identical pairs, near-ties and bugs are told apart."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mmspec.bench.prompts import asked, drawn
from mmspec.check import EXIT_CODES, NEAR_TIES, check, common_prefix, compare, diverged
from mmspec.engine import load
from mmspec.errors import UsageError
from mmspec.options import Options
from mmspec.sampling import Sampling

OPTIONS = Options(drafting="MT", gamma=3, max_new_tokens=24)


@pytest.fixture(scope="module")
def engine(pair_paths):
    target, draft = pair_paths
    return load(str(target), str(draft), backend="torch")


class Letters:
    def decode(self, ids, skip_special=True):
        return "".join(chr(97 + id) for id in ids)


def test_speculative_answers_are_found_identical(engine):
    report = check(engine, drawn(2, size=32), OPTIONS)
    assert (report.outcome, report.exit_code) == ("identical", 0)
    assert [each.tokens for each in report.comparisons] == [24, 24]
    assert all(each.drafting == "MT" for each in report.comparisons)
    assert json.loads(json.dumps(report.as_dict()))["comparisons"][0]["outcome"] == "identical"


class Meddler:
    """A target that answers something else once rows are verified together."""

    def __init__(self, inner, wrong):
        self.inner, self.wrong = inner, wrong

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def verify(self, draft, draws):
        verdict = self.inner.verify(draft, draws)
        if draft is None or self.inner.length < 40:
            return verdict
        return replace(verdict, accept=[0.0] * draft.size, fallback=[self.wrong] * (draft.size + 1))


def test_a_wrong_token_is_a_bug_with_its_place_and_gap(engine, monkeypatch):
    model = engine.target.model
    original = type(model).open_target
    monkeypatch.setattr(type(model), "open_target", lambda *a: Meddler(original(*a), wrong=77))
    report = check(engine, [asked("What is in the picture?")], OPTIONS)
    (comparison,) = report.comparisons
    assert (report.outcome, report.exit_code) == ("bug", 1)
    assert comparison.divergence.second == 77
    assert comparison.divergence.shortfall >= comparison.divergence.gap > 0


def test_the_divergence_names_both_tokens_and_the_gap():
    logits = np.array([0.5, 3.0, 2.0, 2.9], dtype=np.float32)
    found = diverged([0, 1, 2], [0, 3, 2], logits, Letters())
    assert (found.position, found.texts) == (1, ("b", "d"))
    assert found.gap == pytest.approx(0.1)
    assert found.shortfall == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("second", "expected"), [(1, "near-tie"), (2, "bug")], ids=["runner-up", "third"]
)
def test_a_tie_excuses_only_the_tied_tokens(second, expected):
    logits = np.array([1.0, 1.0 - 5e-5, 0.2], dtype=np.float32)
    found = diverged([0], [second], logits, Letters())
    assert found.gap <= NEAR_TIES["float32"]
    assert found.outcome(NEAR_TIES["float32"]) == expected


def test_an_answer_that_ends_early_is_a_bug():
    found = diverged([0, 1], [0], np.array([1.0, 1.0], dtype=np.float32), Letters())
    assert (found.second, found.texts[1]) == (-1, "")
    assert found.outcome(NEAR_TIES["float32"]) == "bug"


def test_common_prefix():
    assert common_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert common_prefix([1, 2], [1, 2, 3]) == 2
    assert common_prefix([], [1]) == 0


def test_exit_codes_are_the_contract():
    assert EXIT_CODES == {"identical": 0, "near-tie": 3, "bug": 1}


def test_sampling_is_refused(engine):
    with pytest.raises(UsageError, match="--temperature"):
        check(engine, [asked("x")], replace(OPTIONS, sampling=Sampling(temperature=1.0)))


def test_plain_decoding_alone_is_refused(engine):
    with pytest.raises(UsageError, match="--drafting"):
        check(engine, [asked("x")], replace(OPTIONS, drafting="none"))


@pytest.mark.parametrize("options", [{"max_new_tokens": 1}, {"drafting": "ngram"}])
def test_answers_without_a_draft_check_nothing(engine, options):
    with pytest.raises(UsageError, match="nothing was drafted"):
        check(engine, [asked("x")], replace(OPTIONS, **{"max_new_tokens": 2, **options}))


def test_an_answer_without_a_draft_is_told_among_others(engine):
    short, long = replace(OPTIONS, max_new_tokens=1), OPTIONS
    threshold = NEAR_TIES["float32"]
    drafted = [compare(engine, asked("x"), each, threshold).drafted for each in (short, long)]
    assert drafted[0] == 0 < drafted[1]
