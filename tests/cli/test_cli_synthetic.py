"""`bench speed --synthetic`: from random weights to a report, on a CPU."""

import json

import pytest
from PIL import Image

from mmspec.bench.synthetic.measure import IMPOSED, ROWS


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("synthetic")


def speed(run, place, *more):
    where = "--synthetic-dir", place, "--device", "cpu", "--backend", "torch", "--repeats", "1"
    return run("bench", "speed", "--synthetic", "tiny", *where, *more)


def test_a_report_has_every_part(run, place, tmp_path):
    out = tmp_path / "speed.json"
    result = speed(run, place, "--json", "--out", out)
    assert result.status == 0, result.err
    told = json.loads(result.out)
    assert json.loads(out.read_text()) == told
    with Image.open(tmp_path / "speed.png") as figure:
        assert figure.width > figure.height
    assert [int(rows) for rows in told["verify"]] == list(ROWS)
    assert list(told["draft"]) == ["M", "MT", "MTC", "MTCP", "msd"]
    assert told["floors"]["verify"]["1"] == told["verify"]["1"]["bytes"] / told["bandwidth"]
    assert [told["prefill"][images]["positions"] for images in "125"] == sorted(
        each["positions"] for each in told["prefill"].values()
    )
    plain, *rounds = told["rounds"]
    assert (plain["drafting"], plain["imposed_speed_up"], plain["waiting"]) == ("none", 1, None)
    assert [row["tokens_per_round"] for row in rounds] == [*IMPOSED] * 5
    for row in rounds:
        made = row["tokens_per_second"] * row["round"]
        assert made == pytest.approx(row["tokens_per_round"], abs=0.02)
    assert told["provenance"]["command"]


def test_tables_say_that_acceptance_is_imposed(run, place):
    result = speed(run, place)
    assert result.status == 0, result.err
    assert "Acceptance is imposed by a script" in result.out
    assert "float32, quantize none" in result.out
    for word in ("| plain step |", "| verify 64 rows |", "| drafted token, MTCP |", "images: 5 |"):
        assert word in result.out
    assert str(place / "tiny") in result.err


def test_quantized_weights_are_fewer_bytes_to_read(run, place):
    told = json.loads(speed(run, place, "--quantize", "int8", "--json").out)
    assert told["quantize"] == "int8"
    whole = json.loads(speed(run, place, "--json").out)
    assert told["verify"]["1"]["bytes"] < 0.8 * whole["verify"]["1"]["bytes"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--synthetic", "llava"), "llava-1.5-7b"),
        (("--model", "mini"), "leave --model out"),
        (("--drafting", "M"), "leave --drafting out"),
        (("--out", "costs.png"), "name a .json file"),
    ],
)
def test_refusals_are_one_line(run, place, more, told):
    result = speed(run, place, *more)
    assert result.status == 2
    assert told in result.err
    assert len(result.err.splitlines()) == 1


def test_what_was_measured_is_shown_where_it_cannot_be_kept(run, place):
    result = speed(run, place, "--out", "/dev/full")
    assert result.status == 2
    assert "| plain step |" in result.out
    assert "--out /dev/full: cannot be written: No space left on device" in result.err
