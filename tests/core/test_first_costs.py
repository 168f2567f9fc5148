"""What loading measures, so that a session's first answer is drafted from its first round."""

import pytest

from mmspec.chat.engine import Engine, load
from mmspec.chat.first_costs import measure_first_costs
from mmspec.chat.options import Options
from mmspec.draft_length.calibration_file import Calibration

QUESTION = "What is a square?"


@pytest.fixture
def engine() -> Engine:
    return load("mini", options=Options(gamma=1))


def test_the_first_answer_of_a_loaded_engine_drafts_from_its_first_round():
    assert load("mini").chat().reply("What is in this picture?").rounds[0].drafted


def measured(engine: Engine, options: Options) -> Calibration:
    measure_first_costs(engine, options)
    return engine.calibration(engine.exact_rows(options.exact))


def test_rounds_of_each_length_are_timed(engine, monkeypatch):
    monkeypatch.setattr("mmspec.chat.first_costs.SECONDS", 60.0)  # a busy machine takes longer
    plain = engine.chat(Options(drafting="none")).reply(QUESTION)
    costs = measured(engine, Options()).round_costs(1, 500)
    assert sorted(costs) == [0, 1, 2, 4, 8]
    answer = engine.chat(Options(gamma=2)).reply(QUESTION)
    assert all(each.drafted for each in answer.rounds)
    assert answer.plain_seconds == costs[0]  # that of the timed rounds: it has no plain one itself
    assert answer.token_ids == plain.token_ids


@pytest.mark.parametrize("options", [Options(gamma=3), Options(drafting="none")])
def test_nothing_is_measured_where_nothing_is_chosen(engine, options):
    assert not measured(engine, options).target


def test_calibrated_costs_stay(engine):
    known = Calibration({64: {1: 1.0, 2: 1.1}}, {64: {1: 0.1}})
    engine.calibrations[engine.exact_rows("auto")] = known
    assert measured(engine, Options()) is known
