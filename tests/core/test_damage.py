"""Damaged files of every kind that no backend reads."""

import pytest

from support.damage import batch
from support.damage.subjects import CORE


@pytest.mark.parametrize("count", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_by_name_or_do_no_harm(tmp_path, count):
    cases = batch.run(tmp_path, list(CORE), count=count)
    assert [case for case in cases if not case.is_sound] == []
    assert len(cases) == count
    assert {case.outcome for case in cases} == {"refused", "harmless"}
