"""Files in LLaVA's and ShareGPT's formats with their oddities, and plans of trainings on them."""

import json

import numpy as np
import pytest
from PIL import Image

from mmspec.checkpoints.config import read_config
from mmspec.ground import errors
from mmspec.ground.errors import UsageError
from mmspec_train.data.conversation_file import HELD_OUT_ONE_IN, ConversationFile, read_instructions
from mmspec_train.data.corpus import FileCorpus, in_turn, open_corpora
from mmspec_train.heads.plan import GPUS, plan
from mmspec_train.settings import Budget, DataSettings, HeadMethodSettings, HeadShape

TURNS = [
    ("human", "<image>\nWhat is it?"),
    ("gpt", " A cat. "),
    ("human", "Sure?"),
    ("gpt", "Yes."),
]
TEXT = [("human", "Hello"), ("gpt", "Hi.")]


def conversation(turns=TURNS, **rest):
    said = [{"from": who, "value": text} for who, text in turns]
    return {"id": "000000033471", "image": "a.png", "conversations": said} | rest


@pytest.fixture
def images(tmp_path):
    for name in "ab":
        Image.new("RGB", (8, 8), "red").save(tmp_path / f"{name}.png")
    return tmp_path


def filler(count=40):
    return [conversation([("human", str(n)), ("gpt", "x")], image=None) for n in range(count)]


def opened(images, *values, count=40, folder="."):
    """A file with these conversations first."""
    file = images / "data.json"
    file.write_text(json.dumps([*values, *filler(count)]))
    return ConversationFile(file, images / folder)


def corpus(images, *values, split="train"):
    return FileCorpus((opened(images, *values),), split=split)


@pytest.mark.parametrize("key", ["image", "images"])
def test_a_conversation_becomes_questions_with_their_images_and_answers(images, key):
    value = conversation() | {"image": None} | {key: ["a.png"]}
    first, second = corpus(images, value).turns(0)
    picture, text = first.question.parts
    assert (picture.image.size, text, first.answer_text) == ((8, 8), "What is it?", "A cat.")
    assert (second.question.parts, second.answer_text) == (("Sure?",), "Yes.")
    (images / "a.png").write_bytes(b"no image")
    with pytest.raises(errors.ImageError, match=r"data\.json:1: .*a\.png"):
        corpus(images, value).turns(0)


def test_one_conversation_in_twenty_is_held_out(images):
    train, held_out = corpus(images), corpus(images, split="held-out")
    assert (train.size, held_out.size) == (38, 2)
    asked = {each.turns(n)[0].question for each in (train, held_out) for n in range(each.size)}
    assert len(asked) == 40
    assert held_out.turns(0)[0].question.parts == (str(HELD_OUT_ONE_IN - 1),)


# Oddities: what LLaVA's, EAGLE's and MSD's preparation repairs, and where it stops


REPAIRED = [
    ([("gpt", "Welcome."), *TEXT], {"image": []}, "Hello"),
    ([*TEXT, ("human", "And?")], {}, "Hello"),
    ([("human", "Use <image>!"), ("gpt", "<image>")], {"image": []}, "Use <image>!"),
    ([("human", "<image> A <image>\nB"), ("gpt", "c")], {}, "<image>\nA \nB"),
]


@pytest.mark.parametrize(("said", "rest", "turn"), REPAIRED)
def test_an_odd_conversation_is_repaired(images, said, rest, turn):
    odd = conversation(said, **rest)
    file, instructions = opened(images, odd, conversation()), read_instructions(odd)
    shown = turn.count("<image>\n")
    assert [question for question, _ in instructions.turns] == [turn]
    assert len(instructions.images) == shown
    question = FileCorpus((file,)).turns(0)[0].question
    assert len(question.pictures) == shown
    assert shown or question.parts == (turn,), "a typed marker is text"
    assert not file.check()


ODD = [
    ({"video": "a.mp4"}, "no videos"),
    ({"images": ["b.png"]}, "both `image` and `images`"),
    ({"conversations": ["x"]}, "Expected `object`"),
    ({"image": 7}, "Expected `str | array | null`"),
    (conversation([("system", "Be kind."), *TEXT]), "a turn is from system"),
    (conversation([*TEXT, *TEXT[1:], *TEXT[:1]]), "of one role"),
    (conversation(TEXT[:1]), "there is no question with an answer"),
    ({"image": ["a.png", "b.png"]}, "1 <image> for 2 images"),
    ({"image": "missing.png"}, "there is no image"),
]


@pytest.mark.parametrize(("odd", "reason"), ODD)
def test_a_conversation_that_cannot_be_used_is_left_out_with_a_line(images, odd, reason):
    file = opened(images, conversation(), conversation() | odd)
    assert len(file.index.usable) == 41
    assert "data.json: 1 of 42 conversations are left out, first 2: " in file.check()
    assert reason in file.check()
    assert FileCorpus((file,)).size + FileCorpus((file,), split="held-out").size == 41
    file.check()


def test_broken_lines_and_broken_bytes_are_skipped(images):
    lines = [json.dumps(value).encode() for value in filler()]
    broken = [b"{'image': 3}", b"\xff\xfe{", b"[" * 100_000, b"9" * 5000, b"", b'{"a": "\xff"}']
    half = [{"from": "human", "value": "\ud800"}, {"from": "gpt", "value": "b"}]
    broken += [json.dumps({"conversations": half}).encode(), rb'{"conversations": [{"\ud800": 1}]}']
    file = images / "data.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + b"\n".join([*lines[:5], *broken, *lines[5:]]) + b"\n")
    made = ConversationFile(file, images)
    assert len(made.index.usable) == 40
    assert "7 of 47 conversations are left out, first 6: not JSON" in made.check()
    file.write_bytes(b"\n".join(lines + broken * 20))
    with pytest.raises(errors.UsageError, match="140 of 180 conversations cannot be used: one "):
        ConversationFile(file, images).check()


def test_a_file_that_is_mostly_unusable_or_holds_nothing_out_is_refused(images):
    mostly = [conversation(image="coco/1.jpg")] * 45
    said = r"data\.json:1: there is no image .*1\.jpg \(--images\); 45 of 85 .* is like"
    with pytest.raises(errors.UsageError, match=said):
        opened(images, *mostly).check()
    file = opened(images, *filler(19), {"text": "x"}, count=10)
    FileCorpus((file,)).check()
    with pytest.raises(errors.UsageError, match=r"data\.json: every 20th conversation is held out"):
        FileCorpus((file,), split="held-out").check()


@pytest.mark.parametrize("folder", ["coco", "."])
def test_real_paths_start_at_the_folder_or_in_it(images, folder):
    """mix665k's paths begin with a folder per data set; LLaVA's instructions name the parent."""
    (images / "coco" / "train2017").mkdir(parents=True)
    (images / "a.png").rename(images / "coco" / "train2017" / "1.jpg")
    file = opened(images, conversation(image="coco/train2017/1.jpg"), folder=folder)
    assert FileCorpus((file,)).turns(0)[0].question.pictures
    assert not file.check()


def test_answers_to_a_file_are_of_one_folder_of_images(images):
    file = opened(images)
    one, other = (FileCorpus((ConversationFile(file.path, images / f),)) for f in ("a", "b"))
    assert one.about == FileCorpus((ConversationFile(file.path, images / "b" / ".." / "a"),)).about
    assert one.about != other.about


def test_a_broken_array_is_refused_with_its_place(images):
    file = images / "array.json"
    for array, said in (
        (b'[{"conversations": [{"from"', r"array\.json: not JSON: Expecting ':' delimiter"),
        (b'["\xff"]', r"array\.json: not text in UTF-8: invalid start byte"),
        (b"[" * 100_000, r"array\.json: not JSON: maximum recursion depth"),
    ):
        file.write_bytes(array)
        with pytest.raises(errors.UsageError, match=said):
            ConversationFile(file, images).check()


# Several files


def test_files_take_turns_by_size():
    order = in_turn([range(30), range(10)])
    assert sorted(order) == [(f, n) for f in (0, 1) for n in range((30, 10)[f])]
    files = [file for file, _ in order]
    assert all(abs(np.mean(files[:n]) - 0.25) <= 1 / n for n in range(1, 41))
    assert in_turn([range(5)]) == [(0, n) for n in range(5)]


def test_folders_that_do_not_match_the_files_are_refused(images):
    make = {"data": images, "images": images, "task": "clip8"}
    for given, said in (
        ({"images": 1}, "give --data too"),
        ({"data": 3, "images": 2}, "2 --images for 3 --data"),
        ({"data": 1, "task": 1}, "give it without --data"),
    ):
        with pytest.raises(errors.UsageError, match=said):
            DataSettings("x", **{name: (make[name],) * count for name, count in given.items()})


def test_named_tasks_of_the_world_replace_its_mix(pair_paths):
    config = read_config(pair_paths[0])
    tasks = ("clip8", "clip8", "clip8", "clip4")
    corpora = open_corpora(DataSettings("x", task=tasks), config)
    assert [corpus.shares for corpus in corpora] == [{"clip8": 3, "clip4": 1}] * 2
    assert [corpus.split for corpus in corpora] == ["train", "held-out"]
    shown = [len(corpora[0].turns(n)[0].question.pictures) for n in range(40)]
    assert set(shown) == {4, 8}
    assert shown.count(8) > 20
    with pytest.raises(errors.UsageError, match=r"unknown --task 'clip9'.*nearest: clip8"):
        open_corpora(DataSettings("x", task=("clip9",)), config)
    assert "clip8" not in open_corpora(DataSettings("x"), config)[0].shares


EAGLE = 4 * 4096**2 + 3 * 4096 * 11008 + 4096 + 2 * 4096**2 + 4096
"""Parameters of an EAGLE head of LLaVA-1.5-7B, counted by hand."""


@pytest.fixture
def settings(tmp_path):
    """A card without weights, and 400 conversations of 100 and 20 tokens."""
    turns = [{"from": "human", "value": "x" * 400}, {"from": "gpt", "value": "y" * 80}]
    (tmp_path / "data.json").write_text(json.dumps([{"conversations": turns}] * 400))
    data = (tmp_path / "data.json",)
    return DataSettings("llava-1.5-7b", data, answers="dataset", samples=300, batch=120)


def test_a_plan_is_what_the_shapes_say(settings, monkeypatch):
    monkeypatch.setitem(GPUS, "mine", (1.0, 0.001, 80.0))
    head = HeadShape(), HeadMethodSettings(rollout=3), Budget(steps=600)
    lines = plan("mine", "eagle", head, settings)
    assert lines[1] == "data: 300 conversations of 120 columns, 2.0 epochs"
    assert "epochs" not in plan("mine", "eagle", (*head[:2], Budget(minutes=9)), settings)[1]
    memory = 14.13 + (16 * EAGLE + 8 * 3 * 20 * 32064) / 1e9
    assert lines[2] == f"memory: {memory:.1f} GB of 80 GB: fits"
    assert lines[3].startswith("disk: 0.3 GB of hidden states")
    logits = 2 * 32064 * 4096 * (20 + 3 * 3 * 20)
    seconds = (2 * 7.06e9 * 120 + 2 * (6 * EAGLE * (120 + 3 * 20) + logits)) / 1e12
    seconds += 2 * 64 * 32064 * 3 * 20 / 1e9
    assert lines[4] == f"hours: {300 * seconds / 3600:.1f}"


EAGLE3 = 10 * 4096**2 + 3 * 4096 * 11008 + 7 * 4096 + 32064 * 4096
"""Parameters of an EAGLE-3 head of LLaVA-1.5-7B, whose output matrix is trained too."""


def test_a_plan_counts_output_matrices_and_the_rows_of_images(settings, monkeypatch):
    monkeypatch.setitem(GPUS, "mine", (1.0, 0.001, 80.0))
    head, [file] = (HeadShape(), HeadMethodSettings(rollout=3), Budget(steps=600)), settings.data
    memory = 14.13 + (16 * EAGLE3 + 8 * 3 * 20 * 32064) / 1e9
    assert plan("mine", "eagle3", head, settings)[2] == f"memory: {memory:.1f} GB of 80 GB: fits"
    picture = file.with_name("a.png")
    Image.new("RGB", (8, 8)).save(picture)
    file.write_text(json.dumps([conversation(TURNS[:2])] * 400))
    states = plan("mine", "eagle", head, settings)[3]
    columns = len("What is it?A cat.") / 4 + 576
    assert states.startswith(f"disk: {2 * 300 * 4096 * (columns + 576) / 1e9:.1f} GB of")
    picture.write_bytes(b"no image")
    with pytest.raises(UsageError, match="none of the first 200 conversations can be read"):
        plan("mine", "eagle", head, settings)


def test_own_answers_read_the_weights_for_every_token_and_a_gpu_may_have_no_room(
    settings, monkeypatch
):
    own = DataSettings(**vars(settings) | {"answers": "target", "answer_tokens": 4000})
    hours = []
    for bandwidth in (0.01, 1e9):
        monkeypatch.setitem(GPUS, "mine", (1e9, bandwidth, 80.0))
        lines = plan("mine", "msd", (HeadShape(), HeadMethodSettings(), Budget(minutes=6)), own)
        hours.append(float(lines[4].split()[1]))
    assert hours == [pytest.approx(0.1 + 300 * 4000 / 32 * 14.13 / 10 / 3600, abs=0.1), 0.1]

    monkeypatch.setitem(GPUS, "tiny", (100.0, 1.0, 8.0))
    head = HeadShape(), HeadMethodSettings(), Budget()
    assert plan("tiny", "eagle", head, settings)[2].endswith(" GB are taken")
    monkeypatch.setitem(GPUS, "large", (100.0, 1.0, 20.0))
    wide = DataSettings(**vars(settings) | {"batch": 1_000_000})
    assert plan("large", "eagle", head, wide)[2].endswith("does not fit: use a smaller --batch")
    with pytest.raises(UsageError, match="nearest: h100"):
        plan("h10", "eagle", head, settings)
