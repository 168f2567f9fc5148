"""Rows on disk: what is written comes back, what a kill tore is left out, the rest is refused."""

import json
from dataclasses import asdict

import pytest

from mmspec.ground.errors import UsageError
from mmspec_bench.suite.rows import append, read_rows
from support.suite_row import plain, row

FULL = row(
    identical=False,
    divergence={"position": 1, "margin": 0.25, "outcome": "bug"},
    notes=["é\u2028 line"],
)


def test_rows_come_back_as_they_were(tmp_path):
    file = tmp_path / "rows.jsonl"
    append(file, [FULL])
    append(file, [plain(), row("b/1", turn=1)])
    assert read_rows(file) == [FULL, plain(), row("b/1", turn=1)]
    assert len(file.read_text().splitlines(keepends=False)) >= 3


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_torn_last_line_is_left_out(tmp_path, cut):
    file = tmp_path / "rows.jsonl"
    append(file, [FULL, FULL])
    file.write_bytes(file.read_bytes()[:-cut])
    assert read_rows(file) == [FULL]


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ('{"sample":', "rows.jsonl:2: not JSON"),
        ('{"sample": "a"}', "rows.jsonl:2: not a row: task is missing"),
        ("[]", "rows.jsonl:2: not a row"),
        (json.dumps(asdict(row()) | {"rounds": [[1, 2]]}), "rows.jsonl:2: not a row"),
        (json.dumps(asdict(row(rounds=[(10**12, 0, 1)]))), "rounds[0][0] is 1000000000000"),
        (json.dumps(asdict(row(rounds=[(3, 5, 6)]))), "accepted is 5, but must be at most the 3"),
        (json.dumps(asdict(row(seconds={"decode": 1.0}))), "seconds.vision is missing"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, entry):
    file = tmp_path / "rows.jsonl"
    append(file, [row()])
    with file.open("a") as opened:
        opened.write(line + "\n")
    with pytest.raises(UsageError) as error:
        read_rows(file)
    assert entry in str(error.value)
