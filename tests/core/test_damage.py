"""Damaged files of every kind that no backend reads, and faults that the fuzzer must notice."""

import json
from random import Random

import pytest

from support.damage import batch, mutations
from support.damage.subjects import CORE


@pytest.mark.parametrize("count", [54, pytest.param(1800, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_by_name_or_do_no_harm(tmp_path, count):
    cases = batch.run(tmp_path, list(CORE), count=count)
    assert [case for case in cases if not case.is_sound] == []
    assert len(cases) == count
    assert {case.outcome for case in cases} == {"refused", "harmless"}


def test_a_damage_depends_on_its_seed_alone():
    good = json.dumps({"a": [1, {"b": "c"}], "d": None}).encode()
    once, again = ([mutations.damage_json(good, Random(n)) for n in range(4000)] for _ in range(2))
    assert once == again


def prepared(folder, name):
    """The folder, with a good file of a fault."""
    (folder / name / "source").mkdir(parents=True)
    (folder / name / "source" / name).write_text("good")
    return folder


def test_the_fuzzer_notices_faults(tmp_path):
    names = ("memory", "traceback", "unnamed", "abort")  # the last one ends its process
    for name in names:
        prepared(tmp_path, name)
    greedy, failed, unnamed, aborted = batch.run(tmp_path, names, count=4)
    assert aborted.outcome == "hang or abort"
    assert greedy.megabytes > batch.MEGABYTES
    assert failed.outcome == "traceback"
    assert (unnamed.outcome, unnamed.message) == ("unnamed", "something is wrong")
    assert not any(case.is_sound for case in (aborted, greedy, failed, unnamed))


@pytest.mark.slow
def test_the_fuzzer_notices_what_takes_long(tmp_path):
    [slow] = batch.run(prepared(tmp_path, "time"), ["time"], count=1)
    assert slow.seconds > batch.SECONDS
    assert not slow.is_sound
    [hung] = batch.run(prepared(tmp_path, "hang"), ["hang"], count=1, patience=30)
    assert hung.outcome == "hang or abort"
