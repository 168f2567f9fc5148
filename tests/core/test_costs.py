"""What rounds cost: timed at the start, beside other programs, in pairs, and kept in a file."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mmspec.chat.calibration import CalibrationFile, calibration_file, read_calibration
from mmspec.chat.engine import Engine, load
from mmspec.chat.first_costs import measure_first_costs
from mmspec.chat.options import Options
from mmspec.chat.session import MeasuredRounds
from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.statistics import Round
from mmspec.diagnostics.prompts import user_prompt
from mmspec.draft_length.calibration_file import Calibration
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.views import parse_drafting
from mmspec_bench.measure.speed import measure
from mmspec_bench.measure.timing import Spread, Timing
from support.scripted_clock import FLAT
from support.scripted_engine import BLIND, scripted_engine
from support.stand_ins import quiet

QUESTION = "What is a square?"


@pytest.fixture(scope="module")
def mini() -> Engine:
    return load("mini", options=Options(gamma=1))


@pytest.fixture
def engine(mini) -> Engine:
    return replace(mini, calibrations=dict(mini.calibrations))


def test_a_loaded_engine_knows_what_rounds_cost_before_its_first_answer(monkeypatch):
    monkeypatch.setattr("mmspec.chat.engine.measure_first_costs", measure_first_costs)
    monkeypatch.setattr("mmspec.chat.first_costs.SECONDS", 60.0)  # a busy machine takes longer
    engine = load("mini")
    plain = engine.chat(Options(drafting="none")).reply(QUESTION)
    costs = engine.calibration(engine.exact_rows("auto")).round_costs(1, 500)
    assert sorted(costs) == [0, 1, 2, 4, 8]
    answer = engine.chat(Options(gamma=2)).reply(QUESTION)
    assert all(each.drafted for each in answer.rounds)
    assert answer.plain_seconds == costs[0]  # that of the timed rounds: it has no plain one itself
    assert answer.token_ids == plain.token_ids


def measured(engine: Engine, options: Options) -> Calibration:
    measure_first_costs(engine, options)
    return engine.calibration(engine.exact_rows(options.exact))


def test_nothing_is_measured_where_nothing_is_chosen_or_all_is_known(engine):
    for options in (Options(gamma=3), Options(drafting="none")):
        assert not measured(engine, options).target
    known = Calibration({64: {1: 1.0, 2: 1.1}}, {64: {1: 0.1}})
    engine.calibrations[engine.exact_rows("auto")] = known
    assert measured(engine, Options()) is known


def test_a_draft_that_is_only_enqueued_takes_no_time_of_the_target(directory, monkeypatch):
    """A device computes it in five seconds, and a forward in one, when the host waits for it."""
    now, queue = [0.0], [0.0]

    def wait():
        now[0] += queue[0]
        queue[0] = 0.0

    def call(name):
        queue[0] += {"drafter.draft": 5.0, "target.verify": 1.0}.get(name, 0.0)
        if name == "target.verify":
            wait()

    engine = scripted_engine(directory)
    engine.backend.synchronize = wait
    for loaded in (engine.target, engine.draft):
        loaded.model.fault = call
    for module in ("first_costs", "models"):
        monkeypatch.setattr(f"mmspec.chat.{module}.perf_counter", lambda: now[0])
    monkeypatch.setattr("mmspec.chat.first_costs.SECONDS", 1e9)
    costs = measured(engine, Options())
    assert {*costs.target[64].values()} == {1.0}
    assert costs.first == {64: {1: 5.0}}


def test_what_lookup_costs_is_no_draft_model_s(directory):
    engine = scripted_engine(directory)
    costs = measured(engine, Options(drafting="lookup"))
    assert costs.target
    assert costs.round_costs(1, 64) == {}
    # The model's rounds are measured as they come, a plain one first.
    assert engine.draft_length(Options(), parse_drafting("T", BLIND)).choose(8, 64) == Plan(0)


class Target:
    length = 3

    def verify(self, draft, noise):
        return Verdict([7], [], [])


@pytest.mark.parametrize(("work", "cost"), [((5.0, 6.0), 1.0), ((5.0, 25.0), 4.0), (None, 4.0)])
def test_time_of_other_programs_is_no_cost(work, cost):
    """Four seconds pass; the process computes for one of them, with five threads for twenty."""
    clock = iter([0.0, 1.0, 3.0, 4.0])
    work = iter(work).__next__ if work else None
    rounds = MeasuredRounds(Target(), FixedDraftLength(0), clock=clock.__next__, work=work)
    rounds.choose(0, 3)
    rounds.verify(None, NO_NOISE)
    rounds.observe(Round([7], 0, 0, 0))
    assert rounds.round.cost_seconds == cost
    assert (rounds.round.draft_seconds, rounds.round.verify_seconds) == (1.0, 2.0)


def test_what_a_shape_takes_once_is_no_cost(engine, monkeypatch):
    """A GPU captures a shape's graph in ten seconds, in the target and in the draft."""
    for model in (engine.target.model, engine.draft.model):
        monkeypatch.setattr(model, "device", "cuda")
    before = engine.work_seconds()
    for model in (engine.target.model, engine.draft.model):
        monkeypatch.setattr(model, "sequences", SimpleNamespace(setup_seconds=10.0))
    assert -20 < engine.work_seconds() - before < -10


@pytest.fixture
def file(tmp_path):
    key = {"device": "cpu", "torch": "2.13"}
    return CalibrationFile(tmp_path / "kept" / "costs.json", Calibration, key)


def test_costs_of_another_key_are_not_used(file):
    assert read_calibration(file) == (Calibration(), "")
    file.write(FLAT.calibration())
    assert read_calibration(file) == (FLAT.calibration(), "")
    calibration, note = read_calibration(replace(file, key=file.key | {"torch": "2.14"}))
    assert calibration == Calibration()
    assert "another machine, backend or model" in note


BROKEN = [
    {"key": {"format": 1}},
    {"target": {"64": {"1": "fast"}}},
    {"target": {"short": {"1": 1.0}}},
    {"draft": {"64": {"1": 1.0, "99": 1.0}}},
]


@pytest.mark.parametrize("change", BROKEN, ids=str)
def test_a_broken_or_older_file_is_ignored_with_one_line(file, change):
    file.write(FLAT.calibration())
    file.path.write_text(json.dumps(json.loads(file.path.read_text()) | change))
    calibration, note = read_calibration(file)
    assert calibration == Calibration()
    assert note.startswith("calibration not used")
    assert str(file.path) in note
    assert len(note.splitlines()) == 1


def test_every_part_of_the_key_names_another_file(llama_path, pair_paths, monkeypatch):
    def path(target, draft=None, dtype="float32"):
        loaded = load(str(target), str(draft or "none"), backend="torch", dtype=dtype)
        return calibration_file(loaded.backend, loaded.target, loaded.drafts, None).path

    target, draft = pair_paths
    paths = [path(target), path(llama_path), path(target, draft), path(target, dtype="bfloat16")]
    assert path(target) == paths[0]
    monkeypatch.setattr("mmspec.chat.calibration.version", lambda _: "99.0")
    assert len({*paths, path(target)}) == 5


PROMPTS = [user_prompt("one"), user_prompt("two")]


class FixedMethod:
    def __init__(self, name, seconds, log, tokens=(5, 6, 2)):
        self.name, self.seconds, self.log, self.tokens = name, iter(seconds), log, list(tokens)

    def answer(self, prompt):
        self.log.append((self.name, prompt.name))
        return Timing(self.tokens, 3, 2, 3, next(self.seconds), 0.5, depth=4, accepted=1)


def test_methods_are_paired_and_interleaved():
    log = []
    plain = FixedMethod("plain", [9, 1.0, 2.0, 3.0, 4.0], log)
    twice = FixedMethod("twice", [9, 0.5, 1.0, 1.0, 2.0], log)
    answers = {each.name: each.answer for each in (plain, twice)}
    *_, (first, second) = measure(answers, PROMPTS, 2, quiet)
    one, two = [("plain", "one"), ("twice", "one")], [("twice", "two"), ("plain", "two")]
    assert log == [*one, *one, *two, *one, *two]  # the first is to warm up
    assert first.speed_up == Spread(1.0, 1.0, 1.0)
    assert second.speed_up == Spread(2.0, 2.0, 3.0)
    assert second.tokens_per_second == Spread(3.0, 1.5, 6.0)
    assert (second.tokens_per_round, second.acceptance_rate) == (1.5, 0.25)
