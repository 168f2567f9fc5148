"""`mmspec calibrate`'s costs: measured on a scripted machine, and chosen from in chats."""

from dataclasses import replace

import pytest

from mmspec.checkpoints.head_config import HeadConfig
from mmspec.decoding.tree import Tree
from mmspec.drafters.views import NGRAM, parse_drafting
from mmspec_bench.measure.costs import calibrate
from support.chat_turns import OPTIONS, check
from support.scripted_clock import FLAT, STEEP, Machine
from support.scripted_engine import SEES, scripted_engine

T = parse_drafting("T", SEES)
AUTO = replace(OPTIONS, gamma="auto", max_new_tokens=80)
QUESTION = "Tell me a long story"


def calibrated(directory, machine):
    """An engine that has read what was measured of a machine."""
    return replace(scripted_engine(directory), calibration=machine.calibration())


def drafted(chat):
    return [each.drafted for each in chat.answer.rounds]


# Measuring


@pytest.mark.parametrize("machine", [FLAT, STEEP], ids=["1.1", "3.3"])
def test_what_is_measured_is_the_machines_curve(engine, monkeypatch, machine):
    machine.run(monkeypatch)
    measured, expected = calibrate(engine, repeats=2), machine.calibration()
    assert measured.target == pytest.approx(expected.target)
    assert measured.draft == pytest.approx(expected.draft)


def test_without_a_draft_only_the_target_is_measured(directory, monkeypatch):
    FLAT.run(monkeypatch)
    measured = calibrate(scripted_engine(directory, draft=None), repeats=1)
    assert measured.target == pytest.approx(FLAT.calibration().target)
    assert measured.draft == {}
    assert measured.round_costs(1) == {}
    assert measured.round_costs(0)[4] == pytest.approx(FLAT.verify(5))


def test_a_round_costs_its_rows_and_its_drafted_tokens():
    costs = FLAT.calibration().round_costs(2)
    assert list(costs) == list(range(9))
    assert costs[3] == pytest.approx(1.1 + 3 * 0.055)


# Choosing


def test_on_a_flat_curve_long_drafts_are_chosen_from_the_start(directory, monkeypatch):
    FLAT.run(monkeypatch)
    chat = calibrated(directory, FLAT).chat(AUTO)
    check(chat, QUESTION)
    assert drafted(chat)[2] >= 3
    assert chat.answer.plain_reason is None
    assert chat.answer.notes == []


def test_on_a_steep_curve_it_decodes_plainly_and_notes_it_once(directory, monkeypatch):
    STEEP.run(monkeypatch)
    chat = calibrated(directory, STEEP).chat(replace(AUTO, max_new_tokens=8))
    check(chat, QUESTION)
    assert drafted(chat) == [0] * 8
    [note] = chat.answer.notes
    assert note.startswith("gamma auto: decoding plainly")
    check(chat, QUESTION)
    assert chat.answer.notes == []


def test_costs_that_have_changed_are_found_out_while_decoding(directory, monkeypatch):
    Machine(3.3, 1.0).run(monkeypatch)
    chat = calibrated(directory, FLAT).chat(AUTO)
    check(chat, QUESTION)
    assert drafted(chat)[2] >= 3
    assert sum(map(bool, drafted(chat)[8:])) <= 2
    assert chat.answer.plain_reason


def test_trees_start_from_nothing(directory, monkeypatch):
    FLAT.run(monkeypatch)
    chat = calibrated(directory, FLAT).chat(replace(AUTO, tree=Tree((2, 2))))
    check(chat, QUESTION)
    depths = [each.depth for each in chat.answer.rounds]
    assert depths[:3] == [0, 0, 1]


def test_a_head_is_not_presumed_longer_than_its_slots(directory):
    class Slotted:
        config = HeadConfig("medusa", 8, 11, slots=3)

    class Loaded:
        head = Slotted

    engine = replace(calibrated(directory, FLAT), head=Loaded)
    assert max(engine._calibrated(T)) == 3
    assert max(engine._calibrated(NGRAM)) == 8
