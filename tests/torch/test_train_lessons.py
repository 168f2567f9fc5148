"""What is learned from: a target's answers on disk, and batches of them."""

import io
import itertools
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from training_supply import lesson_of, prepared, supplied

import factory
from mmspec import errors
from mmspec_torch.train import log
from mmspec_torch.train.distill import rows
from mmspec_torch.train.distill.corpus import World
from mmspec_torch.train.distill.prepare import Preparation, Scripts
from mmspec_torch.train.distill.supply import held_out_of
from mmspec_torch.train.distill.teacher import Teacher


def test_stored_hidden_states_are_those_computed_anew(supply):
    lessons = supply.lessons("all")
    for record in lessons.records():
        stored, anew = (
            supply.teacher.lesson(replace(lessons, is_stored=kept).batch([record]))
            for kept in (True, False)
        )
        torch.testing.assert_close(stored.states, anew.states, atol=5e-3, rtol=2e-3)
        torch.testing.assert_close(stored.embeddings, anew.embeddings, atol=5e-3, rtol=2e-3)


def test_answers_in_batches_are_the_targets_own(supply):
    for record in supply.held_out.records():
        _, lesson = lesson_of(supply, lambda each, number=record.number: each.number == number)
        logits = supply.teacher.model.llama.project(lesson.states[lesson.learned])
        assert torch.equal(logits.argmax(-1), lesson.targets[lesson.learned])


def test_batches_are_a_function_of_their_number(supply):
    lessons = supply.lessons("all")
    first = [next(lessons.batches(start)) for start in range(9)]
    stream = lessons.batches(0)
    for batch in first:
        again = next(stream)
        assert torch.equal(batch.ids, again.ids)
        assert torch.equal(batch.states, again.states)


def test_text_and_images_part_the_conversations(supply):
    whole, text, images = (supply.lessons(kept).records() for kept in ("all", "text", "images"))
    assert {r.number for r in text} | {r.number for r in images} == {r.number for r in whole}
    assert not any(record.images for record in text)
    assert all(record.images for record in images)


def test_a_tape_of_another_target_is_refused(supply, tmp_path):
    other = Teacher(factory.tiny_llava(tmp_path / "other", seed=3), "cpu")
    with pytest.raises(errors.UsageError, match=r"target is .* but is now"):
        prepared(replace(supply, teacher=other))


def test_answers_go_on_after_a_kill(teacher, tmp_path):
    whole, cut = (supplied(teacher, tmp_path / name, samples=24, rows=2) for name in "ab")
    prepared_in = [made.directory.mkdir() for made in (whole, cut)]
    assert len(prepared_in) == 2
    prepared(whole)
    prepared(replace(cut, want=replace(cut.want, samples=16)))
    with (cut.directory / "train.jsonl").open("a") as file:
        file.write("[16, [[1")
    prepared(cut)
    ours, theirs = (made.lessons("all").tape for made in (cut, whole))
    assert ours.records() == theirs.records()
    for record in theirs.records():
        assert torch.equal(ours.read(record.number).states, theirs.read(record.number).states)


def test_more_answers_are_added_to_any_number_of_them(teacher, tmp_path):
    made = supplied(teacher, tmp_path, samples=3, rows=2)
    prepared(made)
    prepared(replace(made, want=replace(made.want, samples=21)))
    assert [each.number for each in made.lessons("all").tape.records()] == list(range(21))


def test_conversations_without_room_are_counted_and_told_once(teacher, tmp_path):
    """An answer of so many tokens a turn fits one turn alone."""
    room, told = teacher.config.text.max_position_embeddings, io.StringIO()
    made = supplied(teacher, tmp_path, samples=12, longest=room // 2, rows=2, cache_bytes=0)
    scripts = next(Scripts(made.corpora[0], teacher.directory, 12).batches(0))
    fitting = [each.number for each in scripts if len(each.prompts) == 1]
    assert 0 < len(fitting) < 12
    with log.opened(tmp_path / "log.csv", Console(file=told, width=40)) as opened:
        made._preparation("train").run(opened)
    assert [each.number for each in made.lessons("all").tape.records()] == fitting
    assert [line for line in told.getvalue().splitlines() if "left out" in line] == [
        f"answers (train): {12 - len(fitting)} of 12 conversations left out: with --answer-tokens "
        f"{room // 2} they may take more than the {room} positions of the target"
    ]


def test_answers_that_are_ended_say_how_far_they_came(teacher, tmp_path, monkeypatch):
    made, told = supplied(teacher, tmp_path, samples=40, rows=2), io.StringIO()
    real, calls = Preparation._pool, itertools.count(1)

    def pressed(preparation, scripts):
        if next(calls) == 2:
            raise KeyboardInterrupt
        real(preparation, scripts)

    monkeypatch.setattr(Preparation, "_pool", pressed)
    with (
        log.opened(tmp_path / "log.csv", Console(file=told, width=40)) as opened,
        pytest.raises(KeyboardInterrupt),
    ):
        made.prepare(opened)
    stopped = "answers (train): stopped after 16; the same command goes on from there"
    assert told.getvalue().splitlines()[-1] == stopped


def test_what_a_schedule_shows_must_be_there(teacher, tmp_path):
    made = supplied(teacher, tmp_path, samples=2)
    size = teacher.config.vision.image_size
    made = replace(made, corpora=(World({"told": 1.0}, size),) * 2, held_out_samples=1)
    prepared(made)
    made.require("mixed")
    made.require("text")
    for schedule in ("msd", "images"):
        with pytest.raises(errors.UsageError, match=r"no conversation with images .* mixed"):
            made.require(schedule)


@pytest.mark.parametrize(("samples", "held_out"), [(1, 1), (24, 4), (640, 128), (8000, 128)])
def test_a_fifth_of_the_conversations_is_held_out_at_most(samples, held_out):
    assert held_out_of(samples) == held_out


def test_the_cache_stays_within_its_bound(teacher, tmp_path):
    made = supplied(teacher, tmp_path, cache_bytes=60_000)
    prepared(made)
    tape = made.lessons("all").tape
    assert tape.states.stat().st_size <= 60_000
    assert 0 < len(tape.places) < len(tape.records())


def test_sampled_answers_repeat_with_their_seed(teacher):
    logits = torch.randn(3, 50)
    first, again, other = (rows.sampled(1.0, seed)(logits).tolist() for seed in (1, 1, 2))
    assert first == again != other
