"""`mmspec calibrate`'s costs: measured on a scripted machine, and chosen from in chats."""

from dataclasses import replace

import pytest

from mmspec.decoding.tree import Tree
from mmspec.draft_length.calibration_file import ROWS, Calibration, at_context
from mmspec.drafters.views import LOOKUP, parse_drafting
from mmspec.ground.progress import Notice
from mmspec_bench.measure import steadiness
from mmspec_bench.measure.calibrate import calibrate
from support.scripted_clock import FLAT, STEEP, Machine
from support.scripted_engine import OPTIONS, SEES, check, scripted_engine, with_positions
from support.stand_ins import quiet

T = parse_drafting("T", SEES)
AUTO = replace(OPTIONS, gamma="auto", max_new_tokens=80)
QUESTION = "Tell me a long story"


def with_costs(directory, calibration):
    """An engine that has read what was measured of a machine."""
    return replace(scripted_engine(directory), calibrations={None: calibration})


@pytest.fixture(autouse=True)
def _once(monkeypatch):
    """Short rounds are not repeated: scripted ones take the same time always."""
    monkeypatch.setattr("mmspec_bench.measure.calibrate.SECONDS", 0.0)


def test_what_is_measured_is_the_machines_curve(directory, monkeypatch):
    """To the end of each model's positions."""
    STEEP.run(monkeypatch)
    models = with_positions(SEES, 600), with_positions(SEES, 512)
    measured = calibrate(scripted_engine(directory, *models), quiet, repeats=1).calibration
    expected = STEEP.calibration((64, 512, 600 - max(ROWS)))
    assert (measured.target.keys(), list(measured.draft)) == (expected.target.keys(), [64])
    for context in expected.target:
        assert measured.target[context] == pytest.approx(expected.target[context])
    assert measured.draft[64] == pytest.approx(expected.draft[64])
    assert len(measured.round_costs(2, 500)) == 9  # goes on from the last that is known


class Disturbed(Machine):
    """A machine that takes `times` as long for every second `period` of its verifications."""

    times, period, count = 1.0, 1, 0

    def verify(self, rows):
        self.count += 1
        slow = (self.count - 1) // self.period % 2
        return super().verify(rows) * (self.times if slow else 1.0)


@pytest.mark.parametrize(
    ("share", "times", "problem"),
    [
        (3.7, 1.2, ""),
        (0.68, 1.0, "32% of the time other programs had the processor: end other programs"),
        (1.0, 1.5, "the same steps took 1.5 times as long once as again: end other programs"),
    ],
)
def test_a_busy_moment_is_known_by_its_time_and_by_measuring_again(
    directory, monkeypatch, share, times, problem
):
    def measure(machine):
        engine = scripted_engine(directory, draft=None)
        monkeypatch.setattr(engine.target.model, "device", "cpu")

        with monkeypatch.context() as patch:
            machine.run(patch)
            patch.setattr(steadiness, "perf_counter", lambda: machine.now)
            patch.setattr(steadiness, "process_time", lambda: machine.now * share)
            return calibrate(engine, quiet, 1)

    counting, machine = Disturbed(), Disturbed()
    measure(counting)
    machine.times, machine.period = times, counting.count // 6  # two passes in three contexts
    measured = measure(machine)
    assert measured.problem.startswith(problem)
    assert bool(measured.problem) == bool(problem)
    assert measured.calibration.target[64][1] == pytest.approx((1 + times) / 2)


def test_a_measurement_that_cannot_be_right_ends_after_its_first_context(directory, monkeypatch):
    Machine(four=0.5).run(monkeypatch)
    shown = []
    measured = calibrate(scripted_engine(directory, draft=None), shown.append, 1)
    assert "less than a single one" in measured.problem
    assert list(measured.calibration.target) == [64]
    [line] = shown
    assert isinstance(line, Notice), "a pipe shows it too"


def test_a_round_costs_its_rows_and_its_drafted_tokens():
    costs = FLAT.calibration().round_costs(2, 64)
    assert list(costs) == list(range(9))
    assert costs[3] == pytest.approx(1.1 + 3 * 0.055)
    beginning = replace(FLAT.calibration(), first={64: {2: 0.2}}).round_costs(2, 64)
    assert beginning[0] == 1.0
    assert beginning[3] == pytest.approx(1.1 + 0.2 + 2 * 0.055)


def test_a_tree_costs_its_rows_and_its_levels():
    target = {64: {1: 1.0, 17: 3.0}}
    calibration = Calibration(target, level={64: {2: 0.5}})
    costs = calibration.tree_costs(16, 2, 64)
    assert costs[0] == 1.0
    assert costs[4] == 3.0 + 4 * 0.5
    assert calibration.tree_costs(32, 2, 64) == calibration.tree_costs(16, 1, 64) == {}


def test_between_contexts_costs_lie_on_a_line():
    curves = {64: {1: 1.0, 2: 3.0}, 512: {1: 2.0, 2: 3.0}, 2048: {1: 8.0, 2: 1.0}}
    costs = [at_context(curves, context) for context in (1, 64, 288, 512, 1280, 2816)]
    assert [cost[1] for cost in costs] == [1.0, 1.0, 1.5, 2.0, 5.0, 11.0]
    assert [cost[2] for cost in costs] == [3.0, 3.0, 3.0, 3.0, 2.0, 1.0]  # never falls at the end


def test_on_a_steep_curve_it_decodes_plainly_and_notes_it_once(directory, monkeypatch):
    STEEP.run(monkeypatch)
    options = replace(AUTO, drafting="T", max_new_tokens=8)
    chat = with_costs(directory, STEEP.calibration()).chat(options)
    check(chat, QUESTION)
    assert [each.drafted for each in chat.answer.rounds] == [0] * 8
    [note] = chat.answer.notes
    assert note.startswith("gamma auto: decoding plainly")
    check(chat, QUESTION)
    assert chat.answer.notes == []


@pytest.mark.parametrize("drafting", ["lookup", "T+lookup"])
def test_lookup_drafts_by_the_costs_of_many_rows(directory, monkeypatch, drafting):
    FLAT.run(monkeypatch)
    chat = with_costs(directory, FLAT.calibration()).chat(replace(AUTO, drafting=drafting))
    for _ in range(2):
        check(chat, QUESTION)  # the second quotes the first
    assert any(each.drafted for each in chat.answer.rounds)


@pytest.mark.parametrize(("tree", "level"), [(Tree(), {}), (Tree(nodes=5), {64: {1: 0.05}})])
def test_a_tree_that_is_asked_for_is_drafted_if_none_of_its_size_was_timed(
    directory, monkeypatch, tree, level
):
    """As before `mmspec calibrate`, when only chains were timed, on loading."""
    FLAT.run(monkeypatch)
    engine = with_costs(directory, replace(FLAT.calibration(), level=level))
    chat = engine.chat(replace(AUTO, drafting="T", tree=tree))
    check(chat, QUESTION)
    assert any(each.drafted > each.depth for each in chat.answer.rounds)


def test_trees_are_left_out_where_nothing_is_known_of_them_or_they_cannot_be(directory):
    assert with_costs(directory, FLAT.calibration()).tree_of(AUTO, T) is None
    known = with_costs(directory, replace(Machine(1.01, 0.1).calibration(), level={64: {1: 0.1}}))
    slow = with_costs(directory, replace(STEEP.calibration(), level={64: {1: 1.2}}))
    assert slow.tree_of(AUTO, T) is None  # no tree can win: a chain from a tree's drafter is slower
    assert known.tree_of(AUTO, T) == Tree()
    assert known.tree_of(AUTO, LOOKUP) == Tree(width=5, nodes=16)
    assert known.tree_of(replace(AUTO, gamma=4), T) is None
    assert known.tree_of(replace(AUTO, tree=None), T) is None
    assert known.tree_of(replace(AUTO, adaptive=True), T) is None
