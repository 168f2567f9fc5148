"""What is learned from: a target's answers on disk, and batches of them."""

import io
from dataclasses import replace

import pytest
import torch
from msgspec import structs
from rich.console import Console

from mmspec.decoding.sampling import Sampling
from mmspec.ground import errors
from mmspec_train.data.answers import answer_all
from mmspec_train.data.corpus import WorldCorpus
from mmspec_train.data.stored import SCHEDULES, TeacherCache
from mmspec_train.data.teacher import Teacher
from mmspec_train.run.log import open_log
from support import factory
from support.teacher_data import prepare, teacher_data, with_settings


def test_stored_hidden_states_are_those_computed_anew(family_data, monkeypatch):
    """Those of captured layers, which are never stored, too."""
    teacher, batches = family_data.teacher, family_data.batches("all")
    monkeypatch.setattr(teacher, "captured", (1, 3))
    for record in batches.records():
        stored, anew = (
            teacher.read(batches.batch([one]))
            for one in (record, structs.replace(record, place=None))
        )
        for name in ("states", "embeddings", "deepstack", "captured"):
            pair = getattr(stored, name), getattr(anew, name)
            torch.testing.assert_close(*pair, atol=2e-2, rtol=5e-3)


def test_a_datasets_answers_have_the_states_of_the_targets_own(family_data, tmp_path):
    """The same conversations, read as a whole in place of token by token."""
    data = family_data
    questions = data.preparation("train").questions(range(4))
    answered = answer_all(data.teacher, questions, 8)
    pictures = [pictures for _, pictures in questions]
    pairs = [(record, shown) for (record, _), shown in zip(answered, pictures, strict=True)]
    read = data.preparation("train").states(pairs)
    for (_, own), other in zip(answered, read, strict=True):
        torch.testing.assert_close(other, own, atol=1e-4, rtol=1e-4)


def test_answers_in_batches_are_the_targets_own(family_data):
    data = family_data
    for record in data.held_out.records():
        batch = data.teacher.read(data.held_out.batch([structs.replace(record, place=None)]))
        logits = data.teacher.model.language.project(batch.states[batch.learned])
        assert torch.equal(logits.argmax(-1), batch.targets[batch.learned])


def test_batches_are_a_function_of_their_number(data):
    batches = data.batches("all")
    first = [next(batches.batches(start)) for start in range(9)]
    stream = batches.batches(0)
    for batch in first:
        again = next(stream)
        assert torch.equal(batch.ids, again.ids)
        assert torch.equal(batch.states, again.states)


def test_a_cache_of_another_target_is_refused(data, tmp_path):
    other = Teacher(factory.tiny_llava(tmp_path / "other", seed=3), "cpu")
    with pytest.raises(errors.UsageError, match=r"target is .* but is now"):
        prepare(replace(data, teacher=other))


def test_answers_go_on_after_a_kill(family_data, tmp_path):
    teacher = family_data.teacher
    whole, cut = (
        teacher_data(teacher, tmp_path / name, samples=24, answer_rows=2) for name in "ab"
    )
    prepare(whole)
    prepare(with_settings(cut, samples=16))
    with (cut.directory / "train.jsonl").open("a") as file:
        file.write("[16, [[1")
    prepare(cut)
    ours, theirs = (made.batches("all").cache for made in (cut, whole))
    assert ours.records() == theirs.records()
    for record in theirs.records():
        assert torch.equal(ours.read(record), theirs.read(record))


def test_conversations_without_room_are_counted_in_one_line(teacher, tmp_path):
    """An answer of so many tokens a turn fits one turn alone."""
    room, output = teacher.config.text.max_position_embeddings, io.StringIO()
    made = teacher_data(
        teacher, tmp_path, samples=12, answer_tokens=room // 2, answer_rows=2, cache_gb=0.0
    )
    questions = made.preparation("train").questions(range(12))
    fitting = [record.number for record, _ in questions if len(record.prompts) == 1]
    assert 0 < len(fitting) < 12
    with open_log(tmp_path, Console(file=output, width=40)) as log:
        made.preparation("train").run(log)
    assert [record.number for record in made.batches("all").cache.records()] == fitting
    assert [line for line in output.getvalue().splitlines() if "left out" in line] == [
        f"answers (train): {12 - len(fitting)} of 12 conversations left out: with --answer-tokens "
        f"{room // 2} they may take more than the {room} positions of the target"
    ]


def test_a_schedule_needs_conversations_of_its_kind(teacher, tmp_path):
    made = teacher_data(teacher, tmp_path, samples=2, held_out=1)
    size = teacher.config.vision.image_size
    made = replace(made, corpora=(WorldCorpus({"told": 1.0}, size),) * 2)
    prepare(made)
    made.require(SCHEDULES["mixed"])
    made.require(SCHEDULES["text"])
    for schedule in ("msd", "images"):
        with pytest.raises(errors.UsageError, match=r"no conversation with images .* mixed"):
            made.require(SCHEDULES[schedule])


def test_the_cache_stays_within_its_bound(teacher, tmp_path):
    made = teacher_data(teacher, tmp_path, cache_gb=6e-5)
    prepare(made)
    cache = made.batches("all").cache
    assert cache.states_file.stat().st_size <= 60_000
    stored = [record.place is not None for record in cache.records()]
    assert any(stored)
    assert not all(stored)


def test_damaged_records_are_refused_by_name(teacher, tmp_path):
    made = teacher_data(teacher, tmp_path)
    prepare(made)
    file = made.batches("all").cache.records_file
    file.write_bytes(file.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(errors.UsageError, match=r"train\.jsonl is damaged, .*another checksum"):
        list(made.batches("all").once())


def test_damaged_states_are_refused_by_name(teacher, tmp_path):
    made = teacher_data(teacher, tmp_path)
    prepare(made)
    states = made.batches("all").cache.states_file
    whole = states.read_bytes()
    for content in (b"\xff" * len(whole), whole[:-2], b""):
        states.write_bytes(content)
        with pytest.raises(errors.UsageError, match=r"train\.states is damaged, .*\(rows \d+ to"):
            list(made.batches("all").once())
    states.unlink()
    with pytest.raises(errors.UsageError, match=r"cannot read .*train\.states: No such file"):
        list(made.batches("all").once())


def test_states_beyond_float16_are_computed_anew(data, tmp_path):
    record, *_ = data.batches("all").records()
    stored = data.batches("all").cache.read(record)
    cache = TeacherCache(tmp_path, "train", data.teacher.config.text.hidden_size)
    cache.append([(record, stored.float() * 1e6), (record, stored)], 10**9)
    assert [record.place is None for record in cache.records()] == [True, False]


def test_a_sampled_answer_depends_on_its_conversation_and_the_seed_alone(teacher, data):
    """Not on the conversations answered beside it, nor on their number."""
    conversations = data.preparation("train").questions(range(4))

    def answers(some, seed):
        pairs = answer_all(teacher, some, 8, Sampling(temperature=1.0), seed)
        return [record.answers for record, _ in pairs]

    together = answers(conversations, 1)
    assert together == [answer for one in conversations for answer in answers([one], 1)]
    assert together != answers(conversations, 2)
