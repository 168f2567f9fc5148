"""The runner over scripted models: order, comparison, what is paid, what a kill leaves."""

from dataclasses import replace

import pytest
from chat_turns import OPTIONS
from scripted_engine import SEES, picture, scripted_engine, with_positions

from mmspec.bench.suite.arms import open_arm
from mmspec.bench.suite.items import Item, Question
from mmspec.bench.suite.methods import read_methods
from mmspec.bench.suite.rows import read_rows
from mmspec.bench.suite.runner import Runner
from mmspec.bench.world import Fact
from mmspec.conversation import Message
from mmspec.errors import ImageError, UsageError


def item(number, turns=1, facts=()):
    first = Question(Message("user", (picture(number), "What is this?")), facts)
    more = [Question(Message("user", ("Why?",)))] * (turns - 1)
    return Item(f"t/{number}", "t", lambda: (first, *more))


def broken(number):
    def read():
        raise ImageError("no picture")

    return Item(f"t/{number}", "t", read)


def runner(engine, methods, file, skipped=None):
    arms = [open_arm(method, engine, OPTIONS) for method in read_methods(methods)]
    return Runner(arms, file / "rows.jsonl", skipped)


def placed(*items):
    return list(enumerate(items))


def same(row):
    """A row without what differs from run to run."""
    rounds = [each[:3] for each in row.rounds]
    return replace(row, rounds=rounds, seconds={}, peak_memory_bytes=0)


def test_every_method_answers_every_turn_and_rows_are_on_disk_at_once(engine, tmp_path):
    made = runner(engine, "M,MTC,none", tmp_path)
    seen = 0
    for rows in made.run(placed(item(1, 2), item(2)), []):
        seen += len(rows)
        assert read_rows(made.file)[-len(rows) :] == rows
    assert seen == 3 * 2 + 3


def test_the_order_rotates_with_the_sample(engine, tmp_path):
    made = runner(engine, "M,T,none", tmp_path)
    rows = [row for rows in made.run(placed(item(1), item(2), item(3)), []) for row in rows]
    assert [row.method for row in rows] == ["M", "T", "none", "T", "none", "M", "none", "M", "T"]
    assert [row.position for row in rows] == [0, 1, 2] * 3


def test_drafted_answers_are_compared_with_the_plain_one(engine, tmp_path):
    (rows,) = runner(engine, "none,MT,T", tmp_path).run(placed(item(1, 2)), [])
    plain = {row.turn: row for row in rows if row.method == "none"}
    assert [row.identical for row in plain.values()] == [None, None]
    for row in rows:
        assert row.token_ids == plain[row.turn].token_ids
        if row.method != "none":
            assert (row.identical, row.divergence) == (True, None)
            assert row.accepted > 0


def test_a_row_says_what_happened(engine, tmp_path):
    (rows,) = runner(engine, "MTP4:2,1,1,none", tmp_path).run(placed(item(1, 2)), [])
    first, second = (row for row in rows if row.method == "MTP4:2,1,1")
    assert first.branches == ["M", "T", "P4"]
    assert (first.task, first.images, first.turn, second.turn) == ("t", 1, 0, 1)
    assert first.emitted == len(first.token_ids) == len(first.pieces) == 8
    assert second.prompt_tokens > first.prompt_tokens
    assert first.finish_reason == "length"
    assert 0 < first.seconds["first_token"] < first.seconds["total"]
    assert first.text == engine.target.tokenizer.decode(first.token_ids)


def test_without_plain_decoding_nothing_is_compared(engine, tmp_path):
    (rows,) = runner(engine, "M,T", tmp_path).run(placed(item(1)), [])
    assert [row.identical for row in rows] == [None, None]


def test_each_method_pays_for_the_picture_and_its_caption(engine, tmp_path):
    model, captioner = engine.target.model, engine.captioner
    list(runner(engine, "M,T,C,none", tmp_path).run(placed(item(1, 2)), []))
    assert model.encoded == 4
    assert engine.draft.model.encoded == 1  # M's; no other view shows the draft the picture
    assert len(captioner.asked) == 1
    list(runner(engine, "C,MC", tmp_path).run(placed(item(1)), []))
    assert len(captioner.asked) == 3


def test_facts_are_judged(engine, tmp_path):
    (plain,) = next(runner(engine, "none", tmp_path).run(placed(item(1)), []))
    word = max(plain.text.split(), key=len)
    facts = (Fact("word", word, (word,)), Fact("word", "never said", ("never said",)))
    (again,) = next(runner(engine, "none", tmp_path).run(placed(item(1, facts=facts)), []))
    assert again.facts == {"asked": 2, "right": int(word.isupper() and word.isalpha())}
    assert plain.facts is None


def test_probes_are_asked_but_not_compared(engine, tmp_path):
    methods = "none,none:blank,draft,draft:blank"
    (rows,) = runner(engine, methods, tmp_path).run(placed(item(1)), [])
    by_name = {row.method: row for row in rows}
    assert [row.identical for row in rows] == [None] * 4
    assert by_name["none"].token_ids != by_name["none:blank"].token_ids
    assert all(len(row.rounds) == 8 and not row.branches for row in rows)


def test_a_draft_without_room_refuses_and_the_run_goes_on(directory, tmp_path):
    engine = scripted_engine(directory, draft=with_positions(SEES, 20))
    (rows,) = runner(engine, "none,draft", tmp_path).run(placed(item(1, 2)), [])
    refused = [row for row in rows if row.method == "draft"]
    assert [row.finish_reason for row in refused] == ["refused", "refused"]
    assert all(not row.token_ids and "20" in row.notes[-1] for row in refused)


class Meddler:
    """A target that says something else once rows are verified together."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def verify(self, draft, draws):
        verdict = self.inner.verify(draft, draws)
        if draft is None:
            return verdict
        return replace(verdict, accept=[0.0] * draft.size, fallback=[7] * (draft.size + 1))


def test_a_difference_is_placed_and_what_follows_it_is_not_compared(engine, tmp_path, monkeypatch):
    made = runner(engine, "none,M", tmp_path)
    model = type(engine.target.model)
    original = model.open_target
    monkeypatch.setattr(model, "open_target", lambda *a: Meddler(original(*a)))
    (rows,) = made.run(placed(item(1, 2)), [])
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


def test_a_broken_sample_ends_the_run_by_name(engine, tmp_path):
    made = runner(engine, "none", tmp_path)
    with pytest.raises(ImageError, match=r"t/2: no picture; --skip-bad leaves it out"):
        list(made.run(placed(item(1), broken(2), item(3)), []))
    assert [row.sample for row in read_rows(made.file)] == ["t/1"]


def test_a_broken_sample_can_be_left_out(engine, tmp_path):
    told = []
    made = runner(
        engine, "none", tmp_path, lambda item, error: told.append((item.name, str(error)))
    )
    groups = list(made.run(placed(item(1), broken(2), item(3)), []))
    assert [len(rows) for rows in groups] == [1, 0, 1]
    assert told == [("t/2", "no picture")]


def test_a_prompt_without_room_is_a_broken_sample(directory, tmp_path):
    engine = scripted_engine(directory, target=with_positions(SEES, 40))
    made = runner(engine, "none,M", tmp_path)
    with pytest.raises(Exception, match="t/1: prompt and images take"):
        list(made.run(placed(item(1)), []))


@pytest.mark.parametrize("kept", range(1, 9))
def test_wherever_a_kill_cuts_the_file_resuming_completes_it(engine, tmp_path, kept):
    items = placed(item(1, 2), item(2, 2))
    made = runner(engine, "M,none", tmp_path)
    whole = [row for rows in made.run(items, []) for row in rows]
    lines = made.file.read_bytes().splitlines(keepends=True)
    made.file.write_bytes(b"".join(lines[:kept]) + lines[-1][:20])
    left = read_rows(made.file)
    done = made.whole(left, items)
    assert len(done) in (0, 4, 8)
    assert len(left) - len(done) < 4
    if len(done) == len(left):  # as opening a run does, which drops the torn line
        made.file.write_bytes(b"".join(lines[:kept]))
    list(made.run(items, done))
    assert list(map(same, read_rows(made.file))) == list(map(same, whole))


def test_two_shards_give_the_rows_of_one_run(engine, tmp_path):
    items = placed(*map(item, range(1, 6)))
    made = runner(engine, "M,T,none", tmp_path)
    whole = [same(row) for rows in made.run(items, []) for row in rows]
    parts = [same(row) for n in (0, 1) for rows in made.run(items[n::2], []) for row in rows]
    order = {each.name: place for place, each in items}
    assert sorted(parts, key=lambda row: (order[row.sample], row.position)) == whole


def test_warming_up_writes_nothing(engine, tmp_path):
    made = runner(engine, "M,none", tmp_path)
    made.warm_up(item(1))
    assert not made.file.exists()


@pytest.mark.parametrize("methods", ["P5", "draft"])
def test_what_the_models_cannot_do_is_refused_before_the_first_answer(directory, methods):
    draft = SEES if methods == "P5" else None
    with pytest.raises(UsageError):
        runner(scripted_engine(directory, draft=draft), methods, directory)
