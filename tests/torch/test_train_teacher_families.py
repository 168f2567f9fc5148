"""A Qwen as a teacher computes what transformers computes, and its answers are a chat's."""

from dataclasses import replace

import pytest
import torch

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.checkpoints.config import read_config
from mmspec.ground.errors import UsageError
from mmspec_train.data.batch import collate
from mmspec_train.data.teacher import Teacher
from mmspec_train.drafts.draft_model import read_draft
from mmspec_train.drafts.train_drafts import Baselines, require_llava
from mmspec_train.settings import Budget, LlamaShape, MethodSettings
from support.factory_qwen import IMAGE_ID, MAKERS, STOP_ID, tiny_qwen3, tiny_qwen3_5
from support.mrope_oracle import read_columns
from support.qwen_oracle import Oracle
from support.teacher_data import prepare, quiet_log, teacher_data

CAPTURED = (0, 1, 3)


def answered(path, directory, **settings):
    data = teacher_data(Teacher(path, "cpu"), directory, **settings)
    prepare(data)
    return data


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", MAKERS)
def test_states_positions_and_logits_are_transformers(tmp_path, kind, tied):
    """Of several conversations in one batch, with several images of odd shapes."""
    data = answered(MAKERS[kind](tmp_path / "target", seed=5, tied=tied), tmp_path / "answers")
    teacher, oracle = data.teacher, Oracle(tmp_path / "target")
    teacher.captured = CAPTURED
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
        columns = read_columns(oracle, tokens, [picture.image for picture in pictures])
        assert torch.equal(read.positions[row, :, :length], columns["positions"])
        layers = torch.cat([columns["layers"][layer] for layer in CAPTURED], dim=-1)
        torch.testing.assert_close(read.captured[row, :length], layers, atol=2e-4, rtol=1e-3)
        with torch.inference_mode():
            states = oracle.model.model.language_model.norm(columns["layers"][-1])
            logits = oracle.model.lm_head(states)
        torch.testing.assert_close(read.states[row, :length], states, atol=2e-4, rtol=1e-3)
        ours = read.states[row, :length] @ teacher.output_matrix.T
        torch.testing.assert_close(ours, logits, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", MAKERS)
def test_recorded_answers_are_those_of_a_chat(tmp_path, kind):
    """To the same questions, turn after turn: prompts and images are the chat's own."""
    data = answered(MAKERS[kind](tmp_path / "target", seed=5), tmp_path / "answers")
    corpus = data.corpora[1]
    with load(str(tmp_path / "target"), backend="torch") as engine:
        for record in data.held_out.records():
            chat = engine.chat(Options(max_new_tokens=data.settings.answer_tokens))
            for turn, answer in zip(corpus.turns(record.number), record.answers, strict=True):
                stream = chat.send(turn.question)
                assert [*stream]
                assert stream.answer.token_ids == [*answer]


@pytest.mark.parametrize("kind", MAKERS)
def test_a_datasets_answer_ends_as_an_answer_in_a_chat(tmp_path, kind):
    """With the end of a turn, which is not the lowest of the stop tokens."""
    path = MAKERS[kind](tmp_path / "target")
    data = answered(path, tmp_path / "answers", answers="dataset")
    assert min(data.teacher.stop) != STOP_ID
    for record in data.batches("all").records():
        assert {answer[-1] for answer in record.answers} == {STOP_ID}


@pytest.mark.parametrize("kind", ["text-only target", *MAKERS])
def test_a_small_draft_that_sees_is_refused_with_what_to_train(tmp_path, kind):
    path = MAKERS.get(kind, tiny_qwen3)(tmp_path / "target")
    with pytest.raises(UsageError, match=rf"a {kind} has no llava draft.*finetuned.*eagle3"):
        require_llava(read_config(path))
    with pytest.raises(UsageError, match=r"is a qwen.*llama and llava are trained.*eagle3"):
        read_draft(path, read_config(path), 0)


def test_a_small_text_draft_learns_from_a_qwen(tmp_path):
    """Images are a newline each, whatever their number of positions."""
    data = answered(MAKERS["qwen3_vl"](tmp_path / "target", seed=5), tmp_path / "answers")
    shape = LlamaShape(layers=1, width=32, heads=2, ffn=64)
    run = replace(data, needs_states=True)
    method, budget = MethodSettings(loss="kl", every=10), Budget(steps=6)
    baselines = Baselines(run, shape, method, budget, tmp_path / "out", 0)
    baselines.check(["finetuned"])
    with quiet_log(tmp_path) as log:
        assert baselines.make("finetuned", log)
    with load(str(tmp_path / "target"), str(tmp_path / "out" / "finetuned")) as engine:
        chat, plain = (engine.chat(Options(max_new_tokens=8, drafting=d)) for d in ("T", "none"))
        for turn in data.corpora[1].turns(0):
            streams = chat.send(turn.question), plain.send(turn.question)
            assert all([*stream] for stream in streams)
            assert streams[0].answer.token_ids == streams[1].answer.token_ids


def test_a_target_with_recurrent_layers_is_refused(tmp_path):
    path = tiny_qwen3_5(tmp_path / "target")
    with pytest.raises(UsageError, match="one conversation at a time"):
        Teacher(path)
