"""What is found out about exact decoding: when it is measured, kept, used and refused."""

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mmspec.decoding.exact_rows import ExactRows
from mmspec.exactness import finding as module
from mmspec.exactness.finding import DEAR, Finding, FindingFile, exact_rows
from mmspec.ground.errors import UsageError
from mmspec.ground.progress import silent

ROWS = ExactRows(4, 64)
MODEL = SimpleNamespace(dtype="bfloat16", device="cpu")


@pytest.fixture
def file(tmp_path):
    return FindingFile(tmp_path / "exactness" / "one.json", Finding, {"dtype": "bfloat16"})


@pytest.fixture
def machine(monkeypatch):
    """A machine with a price and exact rows, which counts how often it is asked."""
    state = SimpleNamespace(price=1.0, rows=ROWS, prices=0, probes=0)

    def price_of(model, rows, enough=0.0):
        state.prices += 1
        return state.price

    def find_exact_rows(model):
        state.probes += 1
        return state.rows

    monkeypatch.setattr(module, "price_of", price_of)
    monkeypatch.setattr(module, "find_exact_rows", find_exact_rows)
    return state


def rows(mode, file):
    return exact_rows(MODEL, mode, file, "tiny", silent, measure=True)


def test_auto_costs_nothing_until_something_is_found(machine, file):
    assert exact_rows(MODEL, "auto", file, "tiny", silent) is None
    assert (machine.prices, machine.probes, file.path.exists()) == (0, 0, False)
    assert rows("auto", file) == ROWS
    assert exact_rows(MODEL, "auto", file, "tiny", silent) == ROWS


def test_auto_does_not_probe_what_it_would_not_use(machine, file):
    machine.price = np.float64(DEAR + 0.01)
    assert rows("auto", file) is None
    assert machine.probes == 0
    assert rows("on", file) == ROWS
    assert rows("auto", file) is None
    assert machine.probes == 1


def test_auto_is_off_where_no_rows_are_exact_and_on_is_refused_by_name(machine, file):
    machine.rows = None
    assert rows("auto", file) is None
    for _ in range(2):
        with pytest.raises(UsageError, match="`exact=on`: tiny in bfloat16 on cpu"):
            rows("on", file)
    assert machine.probes == 1


@pytest.mark.parametrize(
    "damage",
    [
        *("", "[]", '{"key": 3}', {"price": "x"}, {"price": -1}, {"rows": 7}),
        *({"rows": {"multiple": 4, "most": most}} for most in (0, 62)),
    ],
)
def test_a_damaged_file_is_measured_again(machine, file, damage):
    rows("auto", file)
    whole = json.loads(file.path.read_text())
    text = damage if isinstance(damage, str) else json.dumps(whole | damage)
    file.path.write_text(text)
    assert rows("auto", file) == ROWS
    assert machine.probes == 2
    assert json.loads(file.path.read_text()) == whole


@pytest.mark.parametrize("name", ["pipe", "too long" * 40])
def test_a_finding_whose_file_cannot_be_written_is_used_and_not_kept(machine, file, name):
    file = replace(file, path=file.path.with_name(name))
    file.path.parent.mkdir()
    os.mkfifo(file.path.with_name("pipe"))
    said = []
    assert exact_rows(MODEL, "auto", file, "tiny", said.append, measure=True) == ROWS
    assert "is not kept" in str(said[-1])
