"""The runner over scripted models: order, comparison, what is paid, what a kill leaves."""

from dataclasses import replace

import pytest

from mmspec.decoding.exact_rows import ExactRows
from mmspec.diagnostics.check import NEAR_TIES
from mmspec.ground.errors import ImageError
from mmspec.prompt.conversation import Message
from mmspec_bench.suite.answerer import open_answerer
from mmspec_bench.suite.methods import read_methods
from mmspec_bench.suite.rows import read_rows
from mmspec_bench.suite.run_folder import read_provenance
from mmspec_bench.suite.runner import Runner
from mmspec_bench.suite.samples import SuiteSample
from support.chat_turns import OPTIONS
from support.scripted_engine import picture
from support.stand_ins import Meddler
from support.suite_row import without_times
from support.synthetic_run import provenance, write


def conversation(number, turns=1):
    first = Message("user", (picture(number), "What is this?"))
    more = [Message("user", ("Why?",))] * (turns - 1)
    return SuiteSample(f"t/{number}", "t", lambda: (first, *more))


def broken(number):
    def read():
        raise ImageError("no picture")

    return SuiteSample(f"t/{number}", "t", read)


def runner(engine, methods, folder, *samples, note_skipped=None):
    answerers = [open_answerer(method, engine, OPTIONS) for method in read_methods(methods)]
    return Runner(answerers, list(enumerate(samples)), folder / "rows.jsonl", note_skipped)


def rows_of(*arguments, **options):
    """The rows of a whole run; see `runner`."""
    return [row for rows in runner(*arguments, **options).run([]) for row in rows]


def test_a_row_says_what_happened(engine, tmp_path):
    rows = rows_of(engine, "MTP4:2,1,1,none", tmp_path, conversation(1, 2))
    first, second = (row for row in rows if row.method == "MTP4:2,1,1")
    assert first.branches == ["M", "T", "P4"]
    assert (first.task, first.images, first.turn, second.turn) == ("t", 1, 0, 1)
    assert first.emitted == len(first.token_ids) == len(first.pieces) == 8
    assert second.prompt_tokens > first.prompt_tokens
    assert first.finish_reason == "length"
    assert 0 < first.seconds["first_token"] < first.seconds["total"]
    assert "".join(first.pieces) == engine.target.tokenizer.decode(first.token_ids)


def test_each_method_pays_for_the_picture_and_its_caption(engine, tmp_path):
    model, captioner = engine.target.model, engine.captioner
    rows_of(engine, "M,T,C,none", tmp_path, conversation(1, 2))
    assert model.encoded == 4
    assert engine.draft.model.encoded == 1  # M's; no other view shows the draft the picture
    assert len(captioner.asked) == 1
    rows_of(engine, "C,MC", tmp_path, conversation(1))
    assert len(captioner.asked) == 3


def test_a_difference_is_placed_and_what_follows_it_is_not_compared(engine, tmp_path, monkeypatch):
    bench = runner(engine, "none,M", tmp_path, conversation(1, 2))
    model = type(engine.target.model)
    original = model.open_target
    monkeypatch.setattr(model, "open_target", lambda *a: Meddler(original(*a), wrong=7))
    (rows,) = bench.run([])
    plain, *_ = (row for row in rows if row.method == "none")
    first, second = (row for row in rows if row.method == "M")
    assert first.identical is False
    assert first.divergence["position"] == plain.token_ids.index(
        next(t for t, s in zip(plain.token_ids, first.token_ids, strict=True) if t != s)
    )
    assert first.divergence["margin"] > 0
    assert first.divergence["outcome"] == "bug"
    assert second.identical is None
    assert "an earlier answer differs" in second.notes[-1]


@pytest.mark.parametrize(("rows", "outcome"), [(None, "near-tie"), (ExactRows(1, 8), "bug")])
def test_with_exact_rows_no_difference_is_a_near_tie(engine, tmp_path, monkeypatch, rows, outcome):
    monkeypatch.setitem(NEAR_TIES, "float32", 1e9)
    bench = runner(replace(engine, exactness={"auto": rows}), "none,M", tmp_path, conversation(1))
    model = type(engine.target.model)
    original = model.open_target
    monkeypatch.setattr(model, "open_target", lambda *a: Meddler(original(*a), wrong=7))
    (answers,) = bench.run([])
    [drafted] = [row for row in answers if row.method == "M"]
    assert drafted.divergence["outcome"] == outcome


def test_a_broken_sample_can_be_left_out(engine, tmp_path):
    write(tmp_path, [], provenance(["none"]))
    noted = []
    samples = conversation(1), broken(2), conversation(3)
    bench = runner(engine, "none", tmp_path, *samples, note_skipped=noted.append)
    groups = list(bench.run([]))
    assert [len(rows) for rows in groups] == [1, 0, 1]
    assert noted == ["left out t/2: no picture"]
    assert read_provenance(tmp_path)["skipped"] == [{"sample": "t/2", "reason": "no picture"}]


@pytest.mark.parametrize("length", [1, 3, 5, 8])
def test_wherever_a_kill_cuts_the_file_resuming_completes_it(engine, tmp_path, length):
    bench = runner(engine, "M,none", tmp_path, conversation(1, 2), conversation(2, 2))
    whole = [row for rows in bench.run([]) for row in rows]
    lines = bench.file.read_bytes().splitlines(keepends=True)
    bench.file.write_bytes(b"".join(lines[:length]) + lines[-1][:20])
    left = read_rows(bench.file)
    done = bench.drop_partial(left)
    assert len(done) in (0, 4, 8)
    assert len(left) - len(done) < 4
    if len(done) == len(left):  # as opening a run does, which drops the torn line
        bench.file.write_bytes(b"".join(lines[:length]))
    list(bench.run(done))
    assert list(map(without_times, read_rows(bench.file))) == list(map(without_times, whole))
