"""The drawn suite, the runner over scripted models, and measures over its rows."""

from dataclasses import replace
from math import prod
from types import SimpleNamespace

import pytest
from test_datasets import texts

from mmspec.checkpoints.block_config import BlockDraft
from mmspec.checkpoints.head_config import HeadConfig
from mmspec.checkpoints.head_manifest import head_manifest
from mmspec.decoding.exact_rows import ExactRows
from mmspec.diagnostics.check import NEAR_TIES
from mmspec.diagnostics.prompts import user_prompt
from mmspec.ground.errors import UsageError
from mmspec.prompt.conversation import Message
from mmspec_bench.measure.speed import time_answer
from mmspec_bench.suite import metrics
from mmspec_bench.suite.answerer import open_answerer
from mmspec_bench.suite.drafts import drafted_share
from mmspec_bench.suite.methods import read_methods
from mmspec_bench.suite.rows import read_rows
from mmspec_bench.suite.runner import Runner, shard
from mmspec_bench.suite.sources import FOLLOW_UPS, OFFLINE_TASKS, SuiteSample, offline
from mmspec_world.wording import prompts
from support.scripted_engine import OPTIONS, SEES, picture
from support.stand_ins import Meddler
from support.suite_row import plain, row, without_times

SIZE = 16


def digests(item):
    return [(texts(q), [p.digest for p in q.pictures]) for q in item.read()]


@pytest.fixture(scope="module")
def few():
    return offline(SIZE, limit=3)


def test_samples_are_the_same_for_the_same_seed_and_others_for_another(few):
    again = offline(SIZE, limit=3)
    assert [digests(item) for item in few] == [digests(item) for item in again]
    other = offline(SIZE, limit=3, seed=3)
    assert not {item.name for item in few} & {item.name for item in other}
    assert digests(few[0]) != digests(other[0])


def test_questions_are_asked_as_the_papers_ask(few):
    first = {item.task: texts(item.read()[0]) for item in few}
    [request] = prompts("reasoned")
    for task in ("chart", "text", "general", "hallucination"):
        assert first[task].startswith("<image>" + request)
        assert first[task].count(request) == 1
    assert first["spot"] == (
        "Explain the disparities between the first and second image. <image> <image> Difference:"
    )
    assert "Source Image: <image> Target Image: <image> Instruction:" in first["edit"]
    assert first["pororo"].endswith("<image> Caption #5:")
    assert first["video"] == "<image>" * 4 + "Provide a detailed caption for the provided video."


def test_second_turns_are_built_as_tabed_builds_them(few):
    by_task = {task: [item for item in few if item.task == task] for task in OFFLINE_TASKS}
    charts = by_task["chart"]
    for item, after in zip(charts, [*charts[1:], charts[0]], strict=True):
        assert digests(item)[1] == digests(after)[0]
    assert texts(by_task["spot"][0].read()[1]) == FOLLOW_UPS["story"]
    assert texts(by_task["detail"][0].read()[1]) == FOLLOW_UPS["summary"]
    assert texts(by_task["reasoning"][0].read()[1]) == FOLLOW_UPS["caption"]
    assert all(len(item.read()) == 1 for item in by_task["pororo"])
    assert all(len(item.read()) >= 2 for item in by_task["conversation"])


def test_shards_share_all_out():
    assert [shard("abcdefg", f"{n}/3") for n in (1, 2, 3)] == ["adg", "be", "cf"]
    for word in ("", "0/2", "3/2", "1", "a/b", "1/0", "-1/2"):
        with pytest.raises(UsageError, match="such as 1/2"):
            shard("abc", word)


def conversation(number, turns=1):
    first = Message("user", (picture(number), "What is this?"))
    more = [Message("user", ("Why?",))] * (turns - 1)
    return SuiteSample(f"t/{number}", "t", lambda: (first, *more))


def runner(engine, methods, folder, *samples):
    answerers = [open_answerer(method, engine, OPTIONS) for method in read_methods(methods)]
    return Runner(answerers, samples, folder / "rows.jsonl")


def rows_of(*arguments):
    """The rows of a whole run; see `runner`."""
    return [row for rows in runner(*arguments).run([]) for row in rows]


def test_a_row_says_what_happened(engine, tmp_path):
    rows = rows_of(engine, "MTP4:2,1,1,none", tmp_path, conversation(1, 2))
    first, second = (row for row in rows if row.method == "MTP4:2,1,1")
    assert first.branches == ["M", "T", "P4"]
    assert (first.task, first.images, first.turn, second.turn) == ("t", 1, 0, 1)
    assert first.emitted == len(first.token_ids) == len(first.pieces) == 8
    assert second.prompt_tokens > first.prompt_tokens
    assert first.finish_reason == "length"
    assert 0 < first.seconds["decode"] < first.seconds["total"]
    assert "".join(first.pieces) == engine.target.tokenizer.decode(first.token_ids)


def test_each_method_pays_for_the_picture_and_its_caption(engine, tmp_path):
    model, captioner = engine.target.model, engine.captioner
    rows_of(engine, "M,T,C,none", tmp_path, conversation(1, 2))
    assert model.encoded == 4
    assert engine.draft.model.encoded == 1  # M's; no other view shows the draft the picture
    assert len(captioner.asked) == 1
    rows_of(engine, "C,MC", tmp_path, conversation(1))
    assert len(captioner.asked) == 3
    before = model.encoded
    for _ in range(2):
        time_answer(engine, OPTIONS, user_prompt("What is this?", [picture(1)]))
    assert model.encoded == before + 2


def meddle(engine, monkeypatch):
    """Let targets say 7 wherever rows are verified together."""
    model = type(engine.target.model)
    original = model.open_target
    monkeypatch.setattr(model, "open_target", lambda *a: Meddler(original(*a), wrong=7))


def test_a_difference_is_placed_and_what_follows_it_is_not_compared(engine, tmp_path, monkeypatch):
    bench = runner(engine, "none,M", tmp_path, conversation(1, 2))
    meddle(engine, monkeypatch)
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
    meddle(engine, monkeypatch)
    (answers,) = bench.run([])
    [drafted] = [row for row in answers if row.method == "M"]
    assert drafted.divergence["outcome"] == outcome


@pytest.mark.parametrize(
    ("left", "whole_samples"),
    [
        *(("012", 0), ("01234", 1), ("01234567", 2)),  # killed
        *(("0246", 0), ("4567012", 1), ("001234567", 1)),
    ],
)
def test_whichever_lines_are_lost_resuming_completes_the_rows(
    engine, tmp_path, left, whole_samples
):
    bench = runner(engine, "M,none", tmp_path, conversation(1, 2), conversation(2, 2))
    whole = [without_times(row) for rows in bench.run([]) for row in rows]
    lines = bench.file.read_text().splitlines(keepends=True)
    bench.file.write_text("".join(lines[int(n)] for n in left) + lines[-1][:20])
    done = bench.drop_partial(read_rows(bench.file))
    assert len(done) == 4 * whole_samples
    list(bench.run(done))
    rows = sorted(read_rows(bench.file), key=lambda row: row.sample)
    assert list(map(without_times, rows)) == whole


def test_answers_to_a_sample_that_cannot_be_read_any_more_stay(engine, tmp_path):
    rows = rows_of(engine, "M,none", tmp_path, conversation(1))

    def gone():
        raise UsageError("no image")

    bench = runner(engine, "M,none", tmp_path, SuiteSample("t/1", "t", gone))
    assert bench.drop_partial(rows) == rows


def test_of_a_tree_one_node_of_a_level_can_be_accepted():
    tree = row(rounds=[(20, 3, 4, 3), (20, 1, 2, 3), (6, 0, 1, 2)])
    assert metrics.summarise([tree], [])["acceptance_rate"] == 4 / 8
    assert metrics.acceptance_by_position([tree]) == [2 / 3, 1 / 3, 1 / 2]
    assert metrics.block_efficiency([tree]) == 7 / 3


def test_the_memory_bound_speed_up_is_gagranis_formula_for_full_rounds():
    """tau / (1 + gamma c): 15 tokens in 5 rounds of 4 drafted ones, of 2 % of the parameters."""
    rounds = [(4, 2, 3)] * 5
    whole = metrics.summarise([row(rounds=rounds, drafted_share=0.02)], [])
    assert whole["mbsu"] == pytest.approx(3 / (1 + 4 * 0.02))
    tree = row(rounds=[(12, 2, 3, 4)] * 5, drafted_share=0.02)
    assert metrics.summarise([tree], [])["mbsu"] == whole["mbsu"], "a level is a forward"
    assert metrics.summarise([plain(drafted_share=0.0)], [])["mbsu"] == 1


def test_a_drafted_token_reads_a_decoder_or_a_head_and_the_output_matrix():
    v, h, text = SEES.text.vocab_size, SEES.text.hidden_size, SEES.text
    layer = 4 * h * h + 3 * h * text.intermediate_size + 2 * h
    block = BlockDraft(v // 2, (0,), 4, 0, sample_from_anchor=True)
    eagle = HeadConfig("eagle", h, v, layer=text)
    slots = HeadConfig("dspark", h, v, bias=False, layer=text, slots=4, block=block)
    own = sum(map(prod, head_manifest(slots).values())) - v // 2 * h
    target = SimpleNamespace(model=SimpleNamespace(config=SEES))
    decoder = 2 * v * h + layer + h
    for draft, head, count in (
        (None, None, 0),
        (target, None, decoder),
        (None, eagle, layer - h + 2 * h * h + h + v * h),  # without an input norm; fc and its bias
        (None, slots, own / 4 + v // 2 * h),  # its own output matrix is read whole
    ):
        loaded = head and SimpleNamespace(head=SimpleNamespace(config=head))
        models = SimpleNamespace(target=target, draft=draft, head=loaded)
        assert drafted_share(models) == pytest.approx(count / decoder)
