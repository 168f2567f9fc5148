"""Damaged files of every kind that no backend reads."""

import pytest

from support.damage import batch
from support.damage.subjects import CORE

QUICK = [name for name in CORE if name != "sentencepiece"]
"""Without the kind whose library takes seconds to import."""


@pytest.mark.parametrize(
    ("subjects", "count"), [(QUICK, 8), pytest.param([*CORE], 1000, marks=pytest.mark.slow)]
)
def test_damaged_files_are_refused_by_name_or_do_no_harm(tmp_path, subjects, count):
    cases = batch.run(tmp_path, subjects, count=count)
    assert [case for case in cases if not case.is_sound] == []
    assert len(cases) == count
    assert {case.outcome for case in cases} == {"refused", "harmless"}
