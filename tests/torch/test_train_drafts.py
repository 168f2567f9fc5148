"""Training drafts: they read what decoding reads, become checkpoints, and learn what is said."""

import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from msgspec import structs
from safetensors.torch import load_file
from transformers import LlavaForConditionalGeneration

from mmspec.ground import errors
from mmspec.ground.tokens import NO_TOKEN
from mmspec_torch.backend import TorchBackend
from mmspec_train.data.batch import ConversationRecord, in_columns
from mmspec_train.data.teacher import Teacher
from mmspec_train.distillation.objective import target_log_probabilities
from mmspec_train.distillation.training import train
from mmspec_train.drafts.draft_model import (
    DraftModel,
    image_positions,
    read_draft,
    read_tower,
    save_draft,
)
from mmspec_train.drafts.train_drafts import Baselines, DraftTrainee, draft_trainee
from mmspec_train.llama import llama_of_shape
from mmspec_train.settings import BASELINES, Budget, LlamaShape, MethodSettings
from support import factory
from support.teacher_data import quiet_log, with_settings

TINY = LlamaShape(layers=1, width=32, heads=2, ffn=48, positions=1024)
CE = MethodSettings(loss="ce", gamma=3, every=2)
STEPS = Budget(steps=6)


def test_images_take_a_drafts_own_number_of_columns():
    prompts = ((5, NO_TOKEN, 6), (NO_TOKEN, 7))
    record = ConversationRecord(0, prompts, ((8, 2), (9, 2)), (True, True))
    for positions, visual in ((0, []), (1, [1, 4]), (2, [1, 2, 5, 6])):
        sizes = [[positions] * 2 if positions else []]
        draft, image = in_columns([record], 99, sizes), [99] * max(positions, 1)
        assert draft.ids.tolist() == [[5, *image, 6, 8, *image, 7, 9]]
        assert draft.visual.nonzero()[:, 1].tolist() == visual
        assert draft.ids[draft.has_loss].tolist() == [6, 8, 7, 9]
        assert draft.targets[draft.has_loss].tolist() == [8, 2, 9, 2]


def draft_of(data, positions, seed=0):
    """A draft whose every tensor is one that float16 holds."""
    vision = data.teacher.config.vision
    text = llama_of_shape(TINY, data.teacher.config.text.vocab_size)
    draft = DraftModel(text, seed, vision.hidden_size if positions else 0, positions)
    with torch.no_grad():
        for weight in draft.parameters():
            weight.copy_((5 * weight if weight.ndim > 1 else weight).half())
    return draft


def log_probabilities(draft, data, record):
    """What a draft predicts after learned columns of a conversation with images."""
    trainee = DraftTrainee(draft, data, CE)
    with torch.no_grad():
        batch = trainee.data.held_out.batch([record])
        return trainee.log_probabilities(batch, data.teacher.features(batch.pixels))


def record_with_images(data):
    return next(record for record in data.held_out.records() if record.images > 1)


def test_an_exported_draft_predicts_the_same_when_decoding_and_in_transformers(data, tmp_path):
    draft, record = draft_of(data, data.teacher.config.image_tokens), record_with_images(data)
    save_draft(draft, data.teacher.directory, tmp_path)
    ours = log_probabilities(draft, data, record)
    loaded = Teacher(tmp_path, "cpu", "float32")
    batch = loaded.read(data.held_out.batch([structs.replace(record, place=None)]))
    theirs = target_log_probabilities(batch, loaded.output_matrix)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    assert loaded.model.tower == data.teacher.model.tower, "features can be shared"
    model, report = LlavaForConditionalGeneration.from_pretrained(
        tmp_path, dtype=torch.float32, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    ids = torch.tensor([[1, 40, 41, 42]])
    with torch.no_grad():
        theirs = model(input_ids=ids).logits[0].log_softmax(-1)
        record = ConversationRecord(0, ((1,),), ((40, 41, 42, 2),), (True,))
        whole = in_columns([record], 0, [[]])
        ours = DraftTrainee(draft, data, CE).log_probabilities(whole, [])
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_the_tower_of_an_mlx_target_is_stored_in_the_hubs_layout(data, tmp_path):
    source = data.teacher.directory
    own = read_tower(source)
    theirs = read_tower(factory.quantized(source, tmp_path / "mlx", bits=0))
    assert own.keys() == theirs.keys()
    assert all(torch.equal(own[name], tensor) for name, tensor in theirs.items())


def test_every_guess_of_a_draft_that_is_the_target_is_accepted(data):
    """A round has as many tokens as are drafted, and the target's own."""
    twin = read_draft(data.teacher.directory, data.teacher.config, None)
    score = DraftTrainee(twin, data, CE).score()
    answers = [answer for record in data.held_out.records() for answer in record.answers]
    assert score.agreement == [1.0] * CE.gamma
    assert score.tokens == sum(map(len, answers))
    assert score.rounds == sum(-(-len(answer) // (CE.gamma + 1)) for answer in answers)


def test_a_step_reads_the_features_of_decoding(data):
    """In 16 bits the tower of a step would return others, which a GPU cannot multiply."""
    pixels = data.held_out.pixels([record_with_images(data)])
    own = data.teacher.features(pixels)
    with torch.autocast("cpu", torch.bfloat16):
        learned = data.teacher.features(pixels)
    assert all(torch.equal(a.rows, b.rows) for a, b in zip(own, learned, strict=True))


def test_another_student_or_other_data_are_another_run(data, tmp_path):
    paths = [tmp_path / name for name in "ab"]
    for seed, path in enumerate(paths):
        save_draft(draft_of(data, 0, seed), data.teacher.directory, path)
    one, other = (draft_trainee(str(path), CE, data).manifest for path in paths)
    assert [name for name in one if one[name] != other[name]] == ["start"]
    for options in ({"batch": 401}, {"held_out": 7}, {"answer_tokens": 9}):
        assert with_settings(data, **options).origin != data.origin


def train_baselines(data, out):
    baselines = Baselines(data, TINY, CE, STEPS, out)
    with quiet_log(out) as log:
        for name in BASELINES:
            baselines.make(name, log)
    return {name: load_file(out / name / "model.safetensors") for name in BASELINES}


def test_the_four_baselines_come_from_one_another(data, tmp_path):
    tensors = train_baselines(data, tmp_path)
    name = "model.layers.0.mlp.up_proj.weight"
    inner = "language_model.model.layers.0.mlp.up_proj.weight"
    assert torch.equal(tensors["language"][name], tensors["llava"][inner])
    assert not torch.equal(tensors["pretrained"][name], tensors["finetuned"][name])
    stages = [line.split(",")[1] for line in (tmp_path / "log.csv").read_text().splitlines()[1:]]
    marks = [line.split(",") for line in (tmp_path / "marks.csv").read_text().splitlines()]
    assert {len(line) for line in marks} == {5}, "stages differ in their figures"
    counts = Counter(stages)
    first, last = [("pretrained pretraining", 6), ("finetuned tuning", 6)], ("llava tuning", 6)
    assert [*counts.items()] == [*first, ("llava projector", 1), last]
    assert train_baselines(data, tmp_path).keys() == tensors.keys(), "not trained anew"
    for draft in BASELINES:
        config = TorchBackend().load(tmp_path / draft, device="cpu").config
        assert config.text.num_hidden_layers == 1
    same = Baselines(data, TINY, CE, STEPS, tmp_path)
    same.check(BASELINES)
    with pytest.raises(errors.UsageError, match="language is a finished draft of other sizes"):
        replace(same, shape=replace(TINY, layers=2)).check(BASELINES[1:])
    with pytest.raises(errors.UsageError, match=r"method.rate is .* this draft is finished"):
        replace(same, method=replace(CE, rate=0.5)).check(BASELINES)
    other = replace(data, settings=replace(data.settings, answers="dataset"))
    with pytest.raises(errors.UsageError, match=r"data.--answers is .* this draft is finished"):
        replace(same, data=other).check(BASELINES)
    with pytest.raises(errors.UsageError, match=r"start is None, but is now .* is finished"):
        replace(same, source=tmp_path / "pretrained").check(["finetuned"])
    longer, more = Budget(steps=7), with_settings(data, samples=9)
    shutil.rmtree(tmp_path / "language")
    for changed in replace(same, budget=longer), replace(same, data=more):
        changed.check(["language"])
        with pytest.raises(errors.UsageError, match=r"(steps is 6|samples is 8), .* is finished"):
            changed.check(BASELINES)


def test_only_drafts_that_the_command_reads_must_be_of_its_options(data, tmp_path):
    """With --from the pretrained one is not read, and without it none that --from began."""
    own = Baselines(data, TINY, CE, Budget(steps=1), tmp_path)
    other = replace(own, source=tmp_path / "pretrained")
    with quiet_log(tmp_path) as log:
        for baselines, name in (own, "pretrained"), (other, "finetuned"):
            baselines.check([name])
            baselines.make(name, log)
    own.check(["pretrained", "llava"])
    with pytest.raises(errors.UsageError, match=r"finetuned.*: start is '.*', but is now None"):
        own.check(["finetuned"])
    replace(other, method=replace(CE, rate=0.5)).check(["llava"])
    with pytest.raises(errors.UsageError, match=r"pretrained.*: method.rate is"):
        replace(own, method=replace(CE, rate=0.5)).check(["language"])
    (tmp_path / "finetuned" / "training.json").write_text("{}")
    with pytest.raises(errors.UsageError, match=r"is missing \(another version of mmspec\), but"):
        other.check(["finetuned"])


def test_a_draft_learns_its_target(data, tmp_path):
    method = replace(CE, loss="kl", rate=4e-2, every=40)
    trainee = DraftTrainee(draft_of(data, 4), data, method)
    with quiet_log(tmp_path) as log:
        train(trainee, Budget(steps=40), tmp_path / "out", log)
    rows = (tmp_path / "log.csv").read_text().splitlines()[1:]
    losses = [float(row.split(",")[3]) for row in rows]
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])


def test_a_draft_without_images_that_needs_no_states_reads_no_pixels(data):
    record = next(record for record in data.batches("all").records() if record.images)
    alone = replace(data, needs_states=False)
    for positions in (0, 4):
        batches = DraftTrainee(draft_of(data, positions), alone, CE).data.batches("all")
        batch = batches.batch([structs.replace(record, place=None)])
        assert len(batch.pixels) == (record.images if positions else 0)


def test_tokens_that_a_draft_lacks_are_padded(data, tmp_path):
    source = factory.tiny_llama(tmp_path / "small", vocab_size=312)
    model = read_draft(source, data.teacher.config, None)
    weights = load_file(source / "model.safetensors")
    own = {"model.embed_tokens.weight": model.language_model.embed_tokens.weight}
    own["lm_head.weight"] = model.lm_head.weight
    for name, matrix in own.items():
        assert torch.equal(matrix[:312], weights[name])
        assert torch.allclose(matrix[312:], weights[name].mean(0).expand(8, -1), atol=1e-6)


def test_impossible_drafts_are_refused(data, tmp_path):
    config = data.teacher.config
    stranger = factory.tiny_llava(tmp_path / "stranger", feature_layer=-1)
    with pytest.raises(errors.UsageError, match="another vision tower than the target"):
        read_draft(stranger, config, None)
    other = factory.tiny_llama(tmp_path / "other", vocab_size=384)
    with pytest.raises(errors.UsageError, match=r"has 384 tokens, the target 320: .* at most"):
        read_draft(other, config, None)
    with pytest.raises(errors.UsageError, match="cannot be divided among 3 heads"):
        llama_of_shape(LlamaShape(width=64, heads=3), config.text.vocab_size)
    with pytest.raises(errors.UsageError, match=r"`pool=5`: the grid divides into"):
        image_positions(config, 5)
