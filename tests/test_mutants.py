"""The mutants of `mutants.py` still apply, and the README lists them; here none is run."""

from pathlib import Path

import pytest
from mutants import MUTANTS, ROOT, applied


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_and_is_listed(mutant):
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert applied(mutant, text) != text
    file, _, test = mutant.test.partition("::")
    name = test.partition("[")[0]
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8") or not name
    listed = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    assert f"| {mutant.name} | `{mutant.test.removeprefix('tests/')}` |" in listed


def test_names_are_different():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_documents_count_them():
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    _, _, *rows = readme[readme.index("| mutant |") :].splitlines()
    assert len(rows) == len(MUTANTS)
    results = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    assert f"- {len(MUTANTS)} deliberate mistakes" in results
