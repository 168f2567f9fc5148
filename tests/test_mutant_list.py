"""The mutants of `mutants.py` still apply; here none is run."""

import pytest
from mutants import MUTANTS, ROOT, applied


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_and_its_test_exists(mutant):
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert applied(mutant, text) != text
    file, _, test = mutant.test.partition("::")
    name = test.partition("[")[0]
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8") or not name


def test_names_are_different():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
