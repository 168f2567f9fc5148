"""A target's answers on disk and in batches; a Qwen as teacher computes what transformers does."""

import io
import os
from dataclasses import replace
from shutil import copytree
from types import SimpleNamespace

import pytest
import torch
from msgspec import structs
from rich.console import Console
from safetensors.torch import load_file, save_file

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.checkpoints.config import read_config
from mmspec.decoding.sampling import Sampling
from mmspec.ground import errors
from mmspec.ground.errors import UsageError
from mmspec.prompt.chunks import answer_ids
from mmspec.prompt.conversation import Message, Turn
from mmspec_train.data.answers import answer_all
from mmspec_train.data.batch import collate, tokenize
from mmspec_train.data.corpus import WorldCorpus
from mmspec_train.data.stored import TeacherCache
from mmspec_train.data.teacher import Teacher
from mmspec_train.drafts.draft_model import read_draft
from mmspec_train.drafts.train_drafts import Baselines, require_llava
from mmspec_train.run.log import open_log
from mmspec_train.settings import SCHEDULES, Budget, LlamaShape, MethodSettings
from support.factory_qwen import IMAGE_ID, ROPES, STOP_ID, tiny_qwen
from support.qwen_oracle import Oracle
from support.teacher_data import prepare, quiet_log, teacher_data, with_settings


def test_stored_hidden_states_are_those_computed_anew(family_data, monkeypatch):
    """Those of captured layers, added to answers that exist, too; even if the writing was cut."""
    teacher, batches = family_data.teacher, family_data.batches("all")
    monkeypatch.setattr(teacher, "captured_layers", (0, 2))
    records = batches.records()
    own = [teacher.read(batches.batch([structs.replace(one, place=None)])) for one in records]
    prepare(family_data)
    file = batches.cache.layers((0, 2)).path
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert not batches.batch(records).layer_outputs.numel()
    prepare(family_data)
    assert file.read_bytes() == whole
    batches = family_data.batches("all")
    monkeypatch.setattr(teacher, "hidden_states", None)
    for record, anew in zip(records, own, strict=True):
        stored = teacher.read(batches.batch([record]))
        for name in ("states", "embeddings", "layer_outputs"):
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
        logits = data.teacher.model.language.project(batch.states[batch.has_loss])
        assert torch.equal(logits.argmax(-1), batch.targets[batch.has_loss])


def test_batches_are_a_function_of_their_number_for_one_target(data, tmp_path):
    stream = data.batches("all").batches(0)
    for start in range(9):
        batch, again = next(data.batches("all").batches(start)), next(stream)
        assert torch.equal(batch.ids, again.ids)
        assert torch.equal(batch.states, again.states)
    path = copytree(data.teacher.directory, tmp_path / "other")
    tensors = load_file(path / "model.safetensors")
    tensors[next(name for name in tensors if "q_proj" in name)] *= 2  # finetuned, not embeddings
    save_file(tensors, path / "model.safetensors")
    with pytest.raises(errors.UsageError, match=r"target is .* but is now"):
        prepare(replace(data, teacher=Teacher(path, "cpu")))


def test_of_answers_that_runs_share_each_takes_its_own_samples(data, tmp_path):
    few = with_settings(data, samples=3, held_out=2)
    prepare(few)
    assert len(data.batches("all").records()) == 8
    for split, count in (("train", 3), ("held-out", 2)):
        assert [one.number for one in few.batches("all", split).records()] == [*range(count)]
    assert few.manifest["the number of conversations (--samples)"] == 3


def test_runs_that_share_answers_write_in_turn(teacher, tmp_path, monkeypatch):
    """And who reads meanwhile leaves the line that another writes."""
    fcntl = pytest.importorskip("fcntl")
    made, real = teacher_data(teacher, tmp_path, samples=1, held_out=1), TeacherCache.append

    def append(cache, conversations, most):
        place = os.open(cache.directory, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(place)
        real(cache, conversations, most)
        with cache.records_file.open("ab") as file:
            file.write(b"[8, [[1")
        before = cache.records_file.read_bytes()
        assert len(TeacherCache(cache.directory, cache.split, cache.width).records()) == 1
        assert cache.records_file.read_bytes() == before

    monkeypatch.setattr(TeacherCache, "append", append)
    prepare(made)


def test_a_run_says_that_it_waits_for_another(teacher, tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    cache, lines = teacher_data(teacher, tmp_path).batches("all").cache, []

    def flock(_, options):
        if options & fcntl.LOCK_NB:
            raise BlockingIOError
        lines.append("waits")

    monkeypatch.setattr(fcntl, "flock", flock)
    with cache.lock(SimpleNamespace(say=lines.append)):
        assert lines == [f"waiting for another run in {tmp_path}", "waits"]


def test_a_text_only_target_leaves_out_what_has_images(answered, tmp_path):
    shares, output = {"told": 1.0, "caption": 1.0}, io.StringIO()
    made = teacher_data(answered("qwen3").teacher, tmp_path, samples=6)
    made = replace(made, corpora=(WorldCorpus(shares, 48),) * 2)
    with open_log(tmp_path, Console(file=output, width=400)) as log:
        made.preparation("train").run(log)
    records = made.batches("all").cache.records()
    assert 0 < len(records) < 6
    assert not any(record.images for record in records)
    assert "left out, first an image: this model is text-only" in output.getvalue()


def test_answers_go_on_after_a_kill(answered, tmp_path):
    """Of twelve conversations eight are answered together, of the ninth a kill left a part."""
    teacher = answered("qwen3_vl").teacher
    whole, cut = (
        teacher_data(teacher, tmp_path / name, samples=12, answer_rows=1) for name in "ab"
    )
    prepare(whole)
    prepare(with_settings(cut, samples=8))
    with (cut.directory / "train.jsonl").open("a") as file:
        file.write("[8, [[1")
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
    fitting = [number for number in range(12) if len(made.corpora[0].turns(number)) == 1]
    assert 0 < len(fitting) < 12
    with open_log(tmp_path, Console(file=output, width=40)) as log:
        made.preparation("train").run(log)
    assert [record.number for record in made.batches("all").cache.records()] == fitting
    [line] = [line for line in output.getvalue().splitlines() if "left out" in line]
    assert line.startswith(f"answers (train): {12 - len(fitting)} of 12 conversations left out, ")
    assert line.endswith(f" with --answer-tokens {room // 2}: the target has {room}")


def test_a_schedule_needs_conversations_of_its_kind(teacher, tmp_path):
    made = teacher_data(teacher, tmp_path, samples=2, held_out=1)
    size = teacher.config.vision.image_size
    made = replace(made, corpora=(WorldCorpus({"told": 1.0}, size),) * 2)
    prepare(made)
    made.sources(SCHEDULES["mixed"])
    made.sources(SCHEDULES["text"])
    for schedule in ("msd", "images"):
        with pytest.raises(errors.UsageError, match=r"no conversation with images .* mixed"):
            made.sources(SCHEDULES[schedule])


def test_sampled_answers_are_of_one_seed_and_greedy_ones_of_any(teacher, tmp_path):
    drawn = teacher_data(teacher, tmp_path / "drawn", samples=1, held_out=1, temperature=0.7)
    greedy = teacher_data(teacher, tmp_path / "greedy", samples=1, held_out=1)
    for data in drawn, greedy:
        prepare(data)
        prepare(with_settings(data, samples=2))
    prepare(with_settings(greedy, samples=3, seed=1))
    with pytest.raises(errors.UsageError, match=r"--seed is 0, but is now 1: give .*--answers-dir"):
        prepare(with_settings(drawn, samples=3, seed=1))


def test_the_cache_stays_within_its_bound(teacher, tmp_path, monkeypatch):
    """And what waits for it lies on the host, as it is stored."""
    made, waiting = teacher_data(teacher, tmp_path, cache_gb=6e-5), []
    real = TeacherCache.append

    def recorded(cache, conversations, most):
        waiting.extend(rows for _, rows in conversations)
        real(cache, conversations, most)

    monkeypatch.setattr(TeacherCache, "append", recorded)
    prepare(made)
    assert {rows.dtype for rows in waiting if rows is not None} == {torch.float16}
    cache = made.batches("all").cache
    assert cache.states.bytes <= 60_000
    stored = [record.place is not None for record in cache.records()]
    assert any(stored)
    assert not all(stored)


def test_damaged_records_and_states_are_refused_by_name(teacher, tmp_path):
    made = teacher_data(teacher, tmp_path)
    prepare(made)
    cache = made.batches("all").cache
    states, records = cache.states.path, cache.records_file
    whole = states.read_bytes()
    for content in (b"\xff" * len(whole), whole[:-2], b""):
        states.write_bytes(content)
        with pytest.raises(errors.UsageError, match=r"train\.states is damaged, .*\(rows \d+ to"):
            list(made.batches("all").once())
    records.write_bytes(records.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(errors.UsageError, match=r"train\.jsonl is damaged, .*another checksum"):
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


CAPTURED = (0, 1, 3)


each_qwen = pytest.mark.parametrize("family_data", ROPES, indirect=True)


@each_qwen
def test_states_positions_and_logits_are_transformers(family_data, monkeypatch):
    """Of several conversations in one batch, with several images of odd shapes."""
    data, teacher = family_data, family_data.teacher
    oracle = Oracle(teacher.directory)
    monkeypatch.setattr(teacher, "captured_layers", CAPTURED)
    preparation = data.preparation("held-out")
    records, vision = data.held_out.records(), teacher.config.vision
    questions = preparation.questions(record.number for record in records)
    pixels = [teacher.pixels(picture) for _, pictures in questions for picture in pictures]
    read = teacher.read(collate(records, pixels, (), teacher.image_id, vision))
    assert max(record.images for record in records) > 1
    seen = {grid.positions for record in records for grid in record.grids(vision)}
    assert len(seen) > 4, "odd shapes have different numbers of positions"
    for row, (_, pictures) in enumerate(questions):
        length = read.lengths[row]
        tokens = read.ids[row, :length].tolist()
        assert tokens.count(IMAGE_ID) == sum(end - start for start, end in read.images[row])
        columns = oracle.columns(tokens, [picture.image for picture in pictures])
        assert torch.equal(read.positions[row, :, :length], columns.positions)
        layers = torch.cat([columns.layers[layer] for layer in CAPTURED], dim=-1)
        torch.testing.assert_close(read.layer_outputs[row, :length], layers, atol=2e-4, rtol=1e-3)
        with torch.inference_mode():
            states = oracle.model.model.language_model.norm(columns.layers[-1])
            logits = oracle.model.lm_head(states)
        torch.testing.assert_close(read.states[row, :length], states, atol=2e-4, rtol=1e-3)
        ours = read.states[row, :length] @ teacher.output_matrix.T
        torch.testing.assert_close(ours, logits, atol=1e-3, rtol=1e-3)


@each_qwen
def test_recorded_answers_are_those_of_a_chat(family_data):
    """To the same questions, turn after turn: prompts and images are the chat's own."""
    data, corpus = family_data, family_data.corpora[1]
    with load(str(data.teacher.directory), backend="torch") as engine:
        for record in data.held_out.records():
            chat = engine.chat(Options(max_new_tokens=data.settings.answer_tokens))
            for turn, answer in zip(corpus.turns(record.number), record.answers, strict=True):
                stream = chat.send(turn.question)
                assert [*stream]
                assert stream.answer.token_ids == [*answer]


@each_qwen
def test_a_datasets_answer_ends_as_an_answer_in_a_chat(family_data, tmp_path):
    """With the end of a turn, which is not the lowest of the stop tokens."""
    read = teacher_data(family_data.teacher, tmp_path, answers="dataset")
    prepare(read)
    assert min(read.teacher.stop) != STOP_ID
    for record in read.batches("all").records():
        assert {answer[-1] for answer in record.answers} == {STOP_ID}


def test_an_empty_answer_of_a_dataset_is_its_end_alone(teacher):
    turns = [Turn(Message("user", ("Hi",)), (), text) for text in ("", "a cat")]
    given = teacher.template, teacher.tokenizer
    record = tokenize(0, turns, *given, teacher.end)
    assert record.answers == ((teacher.end,), (*answer_ids("a cat", *given), teacher.end))


@pytest.mark.parametrize("kind", ["text-only target", "qwen2_5_vl"])
def test_a_small_draft_that_sees_is_refused_with_what_to_train(tmp_path, kind):
    with pytest.raises(UsageError, match="one conversation at a time"):
        Teacher(tiny_qwen("qwen3_5", tmp_path / "recurrent"))
    family = "qwen3" if kind == "text-only target" else kind
    path = tiny_qwen(family, tmp_path / "target")
    with pytest.raises(UsageError, match=rf"a {kind} has no llava draft.*finetuned.*eagle3"):
        require_llava(read_config(path))
    with pytest.raises(UsageError, match=r"is a qwen.*llama and llava are trained.*eagle3"):
        read_draft(path, read_config(path), None)


def test_a_small_text_draft_learns_from_a_qwen(answered, tmp_path):
    """Images are a newline each, whatever their number of positions."""
    shape = LlamaShape(layers=1, width=32, heads=2, ffn=64)
    data = replace(answered("qwen2_5_vl"), needs_states=True)
    method, budget = MethodSettings(loss="kl", every=10), Budget(steps=6)
    baselines = Baselines(data, shape, method, budget, tmp_path / "out")
    baselines.check(["finetuned"])
    with quiet_log(tmp_path) as log:
        assert baselines.make("finetuned", log)
    with load(str(data.teacher.directory), str(tmp_path / "out" / "finetuned")) as engine:
        chat, plain = (engine.chat(Options(max_new_tokens=8, drafting=d)) for d in ("T", "none"))
        for turn in data.corpora[1].turns(0):
            streams = chat.send(turn.question), plain.send(turn.question)
            assert all([*stream] for stream in streams)
            assert streams[0].answer.token_ids == streams[1].answer.token_ids
