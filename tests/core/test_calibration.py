"""Costs kept from one session to the next: measured, chosen from, and left by a chat."""

from dataclasses import replace

import pytest
from chat_turns import OPTIONS, asked, check
from scripted_clock import FLAT, STEEP, Machine
from scripted_engine import SEES, picture, scripted_engine

from mmspec.bench.calibrate import calibrate
from mmspec.calibration import Calibration, CalibrationFile
from mmspec.drafting import NGRAM, parse_drafting
from mmspec.heads.config import HeadConfig
from mmspec.tree import Tree

T, MT = (parse_drafting(word, SEES) for word in ("T", "MT"))
AUTO = replace(OPTIONS, gamma="auto", max_new_tokens=80)
QUESTION = "Tell me a long story"


@pytest.fixture
def file(tmp_path):
    return CalibrationFile(tmp_path / "kept" / "costs.json", {"device": "cpu", "torch": "2.13"})


def restarted(directory, file):
    """An engine of a new session, which has read the file."""
    engine = scripted_engine(directory)
    engine.calibration, note = file.read()
    engine.calibration_file = file
    assert not note
    return engine


def drafted(chat):
    return [each.drafted for each in chat.answer.rounds]


# Measuring


@pytest.mark.parametrize("machine", [FLAT, STEEP], ids=["1.1", "3.3"])
def test_what_is_measured_is_the_machines_curve(engine, monkeypatch, machine):
    machine.run(monkeypatch)
    found, told = calibrate(engine, repeats=2), machine.calibration()
    assert found.target == pytest.approx(told.target)
    assert found.draft == pytest.approx(told.draft)


def test_without_a_draft_only_the_target_is_measured(directory, monkeypatch):
    FLAT.run(monkeypatch)
    found = calibrate(scripted_engine(directory, draft=None), repeats=1)
    assert found.target == pytest.approx(FLAT.calibration().target)
    assert found.draft == {}
    assert found.costs(T) == {}
    assert found.costs(NGRAM)[4] == pytest.approx(FLAT.verify(5))


def test_a_round_costs_its_rows_and_its_drafted_tokens():
    costs = FLAT.calibration().costs(MT)
    assert list(costs) == list(range(9))
    assert costs[3] == pytest.approx(1.1 + 3 * 0.055)


# Choosing


def test_on_a_flat_curve_long_drafts_are_chosen_from_the_start(
    directory,
    file,
    monkeypatch,
):
    FLAT.run(monkeypatch)
    file.write(FLAT.calibration())
    chat = restarted(directory, file).chat(AUTO)
    check(chat, QUESTION)
    assert drafted(chat)[2] >= 3
    assert chat.verdict() is None
    assert chat.answer.notes == []


def test_on_a_steep_curve_it_decodes_plainly_and_says_so_in_one_line(
    directory,
    file,
    monkeypatch,
):
    STEEP.run(monkeypatch)
    file.write(STEEP.calibration())
    chat = restarted(directory, file).chat(replace(AUTO, max_new_tokens=8))
    check(chat, QUESTION)
    assert drafted(chat) == [0] * 8
    [note] = chat.answer.notes
    assert note.startswith("gamma auto: decoding plainly")
    check(chat, QUESTION)
    assert chat.answer.notes == []


def test_costs_that_have_changed_are_found_out_while_decoding(
    directory,
    file,
    monkeypatch,
):
    Machine(3.3, 1.0).run(monkeypatch)
    file.write(FLAT.calibration())
    chat = restarted(directory, file).chat(AUTO)
    check(chat, QUESTION)
    assert drafted(chat)[2] >= 3
    assert sum(map(bool, drafted(chat)[8:])) <= 2
    assert chat.verdict()


def test_trees_start_from_nothing(engine):
    engine.calibration = FLAT.calibration()
    assert engine.lengths(T)._known
    assert not engine.lengths(T, Tree((2, 2)))._known


def test_a_head_is_not_presumed_longer_than_its_places(engine):
    class Slotted:
        config = HeadConfig("medusa", 8, 11, slots=3)

    class Loaded:
        head = Slotted

    engine.calibration, engine.head = FLAT.calibration(), Loaded
    assert max(engine._known(T)) == 3
    assert max(engine._known(NGRAM)) == 8


A, B, C = map(picture, range(3))


@pytest.mark.parametrize(
    ("second", "images", "named", "word"),
    [
        (1.0, (A,), {}, "MT"),
        (8.0, (A,), {}, "M"),
        (8.0, (A, B), {}, "M"),
        (8.0, (A, B, C), {}, "MT"),
        (8.0, (), {}, "T"),
        (8.0, (A,), {"gamma": 3}, "MT"),
        (8.0, (A,), {"tree": Tree((2, 2))}, "MT"),
        (8.0, (A,), {"drafting": "MTC"}, "MTC"),
    ],
)
def test_the_text_view_is_left_out_where_it_costs_too_much(
    engine,
    second,
    images,
    named,
    word,
):
    target = FLAT.calibration().target
    engine.calibration = Calibration(target, {1: 0.1, 2: 0.1 * second})
    chat = engine.chat(replace(AUTO, max_new_tokens=8, **named))
    asked(chat, "What is this?", *images)
    assert chat.answer.drafting.word == word


@pytest.mark.parametrize(("both", "word"), [(2.0, "MT"), (2.2, "M")])
def test_what_rounds_have_shown_chooses_the_views_too(engine, both, word):
    rounds = {"M": {0: 2.0, 3: 4.0, 5: 5.0}, "MT": {0: 1.0, 3: both, 8: 1.0}}
    engine.calibration = Calibration(rounds=rounds)
    chat = engine.chat(replace(AUTO, max_new_tokens=8))
    asked(chat, "What is this?", A)
    assert chat.answer.drafting.word == word


# A first chat


def test_a_first_chat_of_any_length_leaves_what_its_rounds_cost(directory, file, monkeypatch):
    FLAT.run(monkeypatch)
    asked(restarted(directory, file).chat(replace(AUTO, gamma=4)), QUESTION)
    kept, _ = file.read()
    assert set(kept.rounds) == {"T"}
    assert kept.costs(T)[0] == pytest.approx(FLAT.verify(1))
    assert kept.costs(T)[4] == pytest.approx(FLAT.verify(5) + 4 * FLAT.token(1))
    again = restarted(directory, file).chat(AUTO)
    check(again, QUESTION)
    assert drafted(again)[2] >= 3


def test_what_is_known_is_not_measured_again(directory, file, monkeypatch):
    FLAT.run(monkeypatch)
    chat = restarted(directory, file).chat(replace(AUTO, gamma=4))
    forwards = []
    monkeypatch.setattr(chat._session, "plain_seconds", lambda: forwards.append(1) or 1.0)
    asked(chat, QUESTION)
    before = file.path.stat()
    asked(chat, QUESTION)
    assert len(forwards) == 1
    assert file.path.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize(
    "named", [{"gamma": 12}, {"skip_vision": 0.2}, {"tree": Tree((2, 2))}, {"drafting": "none"}]
)
def test_where_nothing_is_kept_nothing_is_measured(directory, file, named, monkeypatch):
    monkeypatch.delattr("mmspec.session.Session.plain_seconds")
    fixed = {"gamma": 4} | named
    asked(restarted(directory, file).chat(replace(AUTO, **fixed)), QUESTION)
    assert not file.path.exists()
    asked(scripted_engine(directory).chat(replace(AUTO, gamma=4)), QUESTION)


def test_what_others_have_kept_meanwhile_stays(directory, file, monkeypatch):
    FLAT.run(monkeypatch)
    engines = [restarted(directory, file) for _ in range(3)]
    for engine, gamma in zip(engines, (4, 6), strict=False):
        asked(engine.chat(replace(AUTO, gamma=gamma)), QUESTION)
    assert {0, 4, 6} <= file.read()[0].costs(T).keys()
    file.write(FLAT.calibration())
    asked(engines[2].chat(replace(AUTO, gamma=5)), QUESTION)
    assert file.read()[0] == FLAT.calibration()


def test_measuring_a_plain_round_changes_nothing(directory, monkeypatch):
    FLAT.run(monkeypatch)
    chat = scripted_engine(directory).chat(replace(AUTO, gamma=4, max_new_tokens=8))
    check(chat, QUESTION)
    assert chat._session.plain_seconds() == pytest.approx(FLAT.verify(1))
    check(chat, "And then?")


def test_costs_that_have_changed_are_replaced_for_the_next_session(directory, file, monkeypatch):
    Machine(3.3, 1.0).run(monkeypatch)
    file.write(FLAT.calibration())
    check(restarted(directory, file).chat(AUTO), QUESTION)
    kept, _ = file.read()
    assert kept.target == kept.draft == {}
    chat = restarted(directory, file).chat(replace(AUTO, max_new_tokens=8))
    check(chat, QUESTION)
    assert drafted(chat) == [0] * 8
    assert chat.verdict()


def test_costs_that_cannot_be_are_not_used():
    costs = Calibration(rounds={"T": {0: 2.0, 4: 5.0, 6: 0.2, 8: 7.0}}).costs(T)
    assert costs == {0: 2.0, 4: 5.0, 8: 7.0}


def test_what_a_busy_moment_made_is_not_kept(directory, file, monkeypatch):
    FLAT.run(monkeypatch)
    for plain in (0.01, 100.0):
        chat = restarted(directory, file).chat(replace(AUTO, gamma=4))
        timed = []
        monkeypatch.setattr(chat._session, "plain_seconds", lambda: timed.append(1) or plain)  # noqa: B023
        asked(chat, QUESTION)
        asked(chat, QUESTION)
        assert timed == [1]
        assert not file.path.exists()


def test_lengths_seen_at_another_speed_join_the_known_ones():
    before = Calibration(rounds={"T": {0: 1.0, 2: 1.5}})
    after = before.after(T, {0: 2.0, 4: 5.0})
    assert after.costs(T) == {0: 2.0, 2: 3.0, 4: 5.0}
    assert after.after(T, {0: 1.0, 4: 2.0}) is after
    assert before.after(T, {0: 2.0}) is before


@pytest.mark.parametrize(
    ("known", "seen", "far"),
    [
        ({0: 1.0, 4: 2.0}, {0: 3.0, 4: 6.0}, False),  # a machine three times as slow
        ({0: 1.0, 4: 2.0}, {0: 3.0, 4: 13.0}, True),
        ({0: 1.0, 4: 2.0}, {0: 1.0, 4: 0.9}, True),
        ({0: 1.0, 4: 2.0}, {4: 13.0}, False),  # which says nothing without a plain round
    ],
)
def test_costs_far_from_the_known_ones_replace_them_all(known, seen, far):
    before = Calibration(rounds={"T": known, "MT": {5: 1.0}})
    after = before.after(T, seen)
    assert after.rounds.keys() == ({"T"} if far else {"T", "MT"})
    assert far == (after == Calibration(rounds={"T": seen}))


def test_a_first_chat_leaves_what_its_rounds_cost(directory, file, monkeypatch):
    FLAT.run(monkeypatch)
    first = restarted(directory, file).chat(AUTO)
    check(first, QUESTION)
    kept, _ = file.read()
    assert kept.target == kept.draft == {}
    seen = kept.costs(T)
    assert len(seen) >= 3
    for k, seconds in seen.items():
        assert seconds == pytest.approx(FLAT.verify(k + 1) + k * FLAT.token(1))
    again = restarted(directory, file).chat(AUTO)
    check(again, QUESTION)
    assert drafted(again)[2] > 1 == drafted(first)[2]


def test_a_chat_adds_lengths_and_rewrites_nothing_else(directory, file, monkeypatch):
    FLAT.run(monkeypatch)
    file.write(FLAT.calibration())
    chat = restarted(directory, file).chat(AUTO)
    before = file.path.stat()
    asked(chat, QUESTION)
    assert file.path.stat().st_mtime_ns == before.st_mtime_ns
    chat = restarted(directory, file).chat(replace(AUTO, gamma=3))
    asked(chat, QUESTION, A)
    assert file.read()[0] == FLAT.calibration()


def test_where_nothing_can_be_written_one_line_says_so(directory, tmp_path, monkeypatch):
    FLAT.run(monkeypatch)
    (tmp_path / "taken").write_text("a file where a folder should be")
    engine = scripted_engine(directory)
    engine.calibration_file = CalibrationFile(tmp_path / "taken" / "costs.json", {})
    chat = engine.chat(AUTO)
    silent = engine.chat(replace(AUTO, gamma=4))
    asked(silent, QUESTION)
    assert silent.answer.notes == []
    chat = engine.chat(AUTO)
    asked(chat, QUESTION)
    [note] = chat.answer.notes
    assert note.startswith("costs of drafting not kept")
    asked(chat, QUESTION)
    assert chat.answer.notes == []
