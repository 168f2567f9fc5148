"""Training: what is encoded, that interrupted runs end alike, and what is exported."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import AutoTokenizer, LlavaForConditionalGeneration, LlavaProcessor

import mmspec_world
from mmspec_train.data.record import IGNORED
from mmspec_train.mini import build, recipe, samples, stages
from mmspec_train.mini.settings import STAGES
from mmspec_train.mini.tokenizer import BOS, IMAGE, NEWLINE
from mmspec_train.run.machine import Machine
from mmspec_train.settings import Budget
from support.teacher_data import Killed, quiet_log

STEPS = {"tower": 3, "projector": 1, "target": 6, "draft": 2}


def trained(
    directory: Path, chosen: tuple[str, ...], checkpoint_seconds: float = 180.0
) -> stages.PairRun:
    machine = Machine(torch.device("cpu"), False, checkpoint_seconds)
    with quiet_log(directory) as log:
        run = stages.PairRun(directory, recipe.TEST, machine)
        run.train_stages(chosen, {stage: Budget(steps=n) for stage, n in STEPS.items()}, log)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> stages.PairRun:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "TOKENIZER_SAMPLES", 160)
        return trained(tmp_path_factory.mktemp("run"), STAGES)


@pytest.mark.parametrize("task", ["chat", "spot", "vist", "clip8"])
def test_targets_are_the_next_tokens_of_answers(run: stages.PairRun, task: str) -> None:
    tokenizer = run.tokenizer
    sample = mmspec_world.sample(task, 5, split="train", size=48)
    encoded = samples.encode(sample, tokenizer, 16, 2.0)
    ids, targets = torch.tensor(encoded.ids), torch.tensor(encoded.targets)
    whole = tokenizer.encode(BOS + "".join(samples.texts(sample))).ids
    image = tokenizer.token_to_id(IMAGE)
    expected = [token for token in whole for _ in range(16 if token == image else 1)]
    assert encoded.ids == expected
    assert expected.count(image) == 16 * len(sample.images)
    learned = [target for target in encoded.targets if target != IGNORED]
    assert len(encoded.weights) == len(learned)
    answers = "".join(f" {turn.answer}</s>" for turn in sample.turns)
    assert tokenizer.decode(learned, skip_special_tokens=False) == answers
    inside = ((targets != IGNORED) & (targets != 1)).nonzero()[:, 0]
    assert (targets[inside] == ids[inside + 1]).all()


def test_drafts_read_stories_as_the_view_without_images(run: stages.PairRun) -> None:
    story = mmspec_world.sample("vist", 1, split="train", size=48)
    shown, blind = (
        samples.encode(story, run.tokenizer, 16, 2.0, blind=blind) for blind in (False, True)
    )
    image, newline = run.tokenizer.token_to_id(IMAGE), run.tokenizer.token_to_id(NEWLINE)
    assert run.tokenizer.decode([newline]) == "\n"
    assert len(story.images) > 2
    assert len(blind.pixels) == 0
    text = [token for token in shown.ids if token != image]
    assert blind.ids.count(newline) == text.count(newline) + len(story.images)
    assert [t for t in blind.ids if t != newline] == [t for t in text if t != newline]
    assert len(blind.ids) == len(text) + len(story.images)
    assert blind.weights == shown.weights


def test_a_whole_batch_is_embedded_as_transformers_does(run: stages.PairRun) -> None:
    model = build.llava(recipe.TEST, recipe.TEST.target, run.tokenizer, 0).eval()
    batch = next(iter(run.conversations("train").batches(0)))
    assert len(batch.pixels)
    ours = model.model.language_model(inputs_embeds=build.embed(model, batch))
    theirs = model.model(input_ids=batch.ids, pixel_values=build.normalise(batch.pixels))
    torch.testing.assert_close(ours.last_hidden_state, theirs.last_hidden_state)


def test_drafts_see_some_images_pooled_as_the_view_p_shows_them(run: stages.PairRun) -> None:
    patches = run.recipe.tower.patches
    batches = itertools.islice(run.conversations("train", draft=True).batches(0), 12)
    sizes = torch.cat([batch.patches for batch in batches])
    assert set(sizes.tolist()) == {patches // 4, patches}
    model = build.llava(recipe.TEST, recipe.TEST.target, run.tokenizer, 0).eval()
    sample = mmspec_world.sample("general", 1, split="train", size=48)
    [batch] = [
        samples.collate_samples([samples.encode(sample, run.tokenizer, patches // 4, 2.0)], 0)
    ]
    features = build.patch_features(model.model.vision_tower, batch.pixels).transpose(1, 2)
    side = math.isqrt(patches)
    halved = F.avg_pool2d(features.unflatten(2, (side, side)), 2).flatten(2).transpose(1, 2)
    shown = batch.ids == run.tokenizer.token_to_id(IMAGE)
    expected = model.model.multi_modal_projector(halved[0])
    torch.testing.assert_close(build.embed(model, batch)[shown], expected)


def test_a_kill_before_the_export_loses_nothing(
    run: stages.PairRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stage in ("tokenizer", "projector"):
        (tmp_path / run.result(stage).name).write_bytes(run.result(stage).read_bytes())

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(LlavaProcessor, "save_pretrained", killed)
        with pytest.raises(Killed):
            trained(tmp_path, ("target", "draft"))
    before = (tmp_path / "log.csv").read_text().splitlines()
    again = trained(tmp_path, ("target", "draft"))
    after = (tmp_path / "log.csv").read_text().splitlines()
    assert [line for line in after if ",target" in line] == before[1:]
    for name in ("target", "draft"):
        theirs = {file.name: file.read_bytes() for file in run.checkpoint(name).iterdir()}
        assert {f.name: f.read_bytes() for f in again.checkpoint(name).iterdir()} == theirs


def test_transformers_loads_the_pair_on_one_tower_and_its_template_writes_the_trained_prompt(
    run: stages.PairRun,
) -> None:
    target, draft = (
        LlavaForConditionalGeneration.from_pretrained(run.checkpoint(name), dtype=torch.float32)
        for name in ("target", "draft")
    )
    tower = draft.model.vision_tower.state_dict()
    assert all(torch.equal(t, tower[n]) for n, t in target.model.vision_tower.state_dict().items())
    assert target.lm_head.weight is target.model.language_model.embed_tokens.weight
    kept = load_file(run.result("target"))
    assert all(torch.equal(t.half().float(), target.state_dict()[n]) for n, t in kept.items())
    tokenizer = AutoTokenizer.from_pretrained(run.checkpoint("target"))
    sample = mmspec_world.sample("chat", 1, split="train", size=48)
    messages = []
    for turn in sample.turns:
        question = [{"type": "image"}] * turn.images + [{"type": "text", "text": turn.question}]
        answer = [{"type": "text", "text": turn.answer}]
        messages += [{"role": "user", "content": question}]
        messages += [{"role": "assistant", "content": answer}]
    settings = {"tokenize": False, "add_generation_prompt": True}
    *before, _ = samples.texts(sample)
    assert tokenizer.apply_chat_template(messages[:-1], **settings) == BOS + "".join(before)


def test_a_recipe_continues_a_target_on_clips_with_more_positions(
    run: stages.PairRun, tmp_path: Path
) -> None:
    """With frozen tower, so that drafts on the first target's tower stay its drafts."""
    start = run.checkpoint("target")
    longer = replace(recipe.TEST.target, positions=2048)
    rates = recipe.CLIPS.rates
    clips = replace(
        recipe.TEST, start=str(start), target=longer, rates=rates, shares={"clip4": 1.0}
    )
    made = stages.PairRun(tmp_path, clips, Machine(torch.device("cpu"), False))
    made.check_starts(("target",))
    with quiet_log(tmp_path) as log:
        made.begin()
        made.train_stages(("target",), {"target": Budget(steps=2)}, log)
    name = "tokenizer.json"
    assert (made.checkpoint("target") / name).read_bytes() == (start / name).read_bytes()
    before, after = (
        LlavaForConditionalGeneration.from_pretrained(path)
        for path in (start, made.checkpoint("target"))
    )
    assert before.config.text_config.max_position_embeddings == 1024
    assert after.config.text_config.max_position_embeddings == 2048
    old = before.state_dict()
    moved = {n: (t.float() - old[n].float()).abs().max() for n, t in after.state_dict().items()}
    changed = {name.split(".")[1] for name, distance in moved.items() if distance}
    assert changed == {"multi_modal_projector", "language_model", "weight"}
    assert max(moved.values()) < 0.1  # two steps from the first target, not from random weights
    (batch,) = itertools.islice(made.conversations("train").batches(0), 1)
    assert len(batch.pixels) == 4 * len(batch.ids)
