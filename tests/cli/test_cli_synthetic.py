"""`bench speed --synthetic`: from random weights to a report, on a CPU."""

import json

import pytest

from mmspec.exactness import probe
from mmspec_bench.random_weights.measure import ROWS


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("synthetic")


def speed(run, place, *more):
    where = "--synthetic-dir", place, "--device", "cpu", "--backend", "torch", "--repeats", "1"
    return run("bench", "speed", "--synthetic", "tiny", *where, *more)


def test_a_report_has_every_part_and_quantized_weights_fewer_bytes(run, place, tmp_path):
    out = tmp_path / "speed.json"
    result = speed(run, place, "--json", "--out", out)
    assert result.status == 0, result.err
    whole = json.loads(result.out)
    assert (whole["exact"], whole["exact_mode"], whole["exact_rows"]) == (False, "off", None)
    assert json.loads(out.read_text()) == whole
    assert [int(rows) for rows in whole["verify"]] == list(ROWS)
    assert list(whole["draft"]) == ["M", "MT", "MTC", "MTCP", "msd"]
    assert whole["bounds"]["verify"]["1"] == whole["verify"]["1"]["bytes"] / whole["bandwidth"]
    assert [whole["prefill"][images]["positions"] for images in "125"] == sorted(
        each["positions"] for each in whole["prefill"].values()
    )
    assert whole["provenance"]["command"]
    packed = json.loads(speed(run, place, "--quantize", "int8", "--json").out)
    assert packed["quantize"] == "int8"
    assert packed["verify"]["1"]["bytes"] < 0.8 * whole["verify"]["1"]["bytes"]


def test_exact_and_ordinary_forwards_are_timed_in_one_run(run, place, monkeypatch):
    monkeypatch.setattr(probe, "POSITIONS", 256)
    told = json.loads(speed(run, place, "--exact", "on,off", "--json").out)
    prices = told["prices"]
    assert (told["exact"], told["exact_mode"]) == (True, "on")
    assert told["exact_rows"].keys() == {"multiple", "most"}
    assert [price["gamma"] for price in prices] == [0, 1, 3, 5, 7]
    assert all(price["exact"] > 0 and price["ordinary"] > 0 for price in prices)


def test_tables_are_shown_also_where_they_cannot_be_kept(run, place):
    result = speed(run, place, "--out", "/dev/full")
    assert result.status == 2
    assert "float32, quantize none" in result.out
    for word in ("plain step", "verify 64 rows", "drafted token, MTCP", "images: 5"):
        assert word in result.out
    assert str(place / "tiny") in result.err
    assert "/dev/full cannot be written (No space left on device)" in result.err
