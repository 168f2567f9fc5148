"""Conversations from a file: LLaVA's instruction format, its images, and what is wrong with it."""

import json

import pytest
from PIL import Image

from mmspec import errors
from mmspec_torch.train.distill.corpus import HELD_OUT_ONE_IN, File

TURNS = [
    ("human", "<image>\nWhat is it?"),
    ("gpt", " A cat. "),
    ("human", "Sure?"),
    ("gpt", "Yes."),
]


def line(turns=TURNS, **rest):
    said = [{"from": who, "value": text} for who, text in turns]
    return json.dumps({"image": "a.png", "conversations": said} | rest)


@pytest.fixture
def images(tmp_path):
    for name in "ab":
        Image.new("RGB", (8, 8), "red").save(tmp_path / f"{name}.png")
    return tmp_path


def corpus(images, *lines, split="train"):
    filler = [line([("human", str(number)), ("gpt", "x")], image=[]) for number in range(40)]
    (images / "data.jsonl").write_text("\n".join([*lines, *filler]) + "\n")
    return File(images / "data.jsonl", images, split)


def test_a_line_becomes_questions_with_their_images_and_answers(images):
    first, second = corpus(images, line()).exchanges(0)
    picture, text = first.question.parts
    assert (picture.image.size, text) == ((8, 8), "What is it?")
    assert (first.answer, second.question.parts, second.answer) == ("A cat.", ("Sure?",), "Yes.")


def test_images_stand_where_their_markers_do(images):
    turns = [("human", "First <image> and <image>\nwhich?"), ("gpt", "b")]
    question = corpus(images, line(turns, image=["a.png", "b.png"])).exchanges(0)[0].question
    kinds = [part if isinstance(part, str) else "image" for part in question.parts]
    assert kinds == ["First ", "image", " and ", "image", "which?"]


def test_one_line_in_twenty_is_held_out(images):
    train, held_out = corpus(images), corpus(images, split="held-out")
    assert (train.size, held_out.size) == (38, 2)
    asked = {each.exchanges(n)[0].question for each in (train, held_out) for n in range(each.size)}
    assert len(asked) == 40
    assert held_out.exchanges(0)[0].question.parts == (str(HELD_OUT_ONE_IN - 1),)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("{", r"data\.jsonl:1: not LLaVA's instruction format"),
        (json.dumps({"text": "x"}), r":1: not LLaVA's .*conversations"),
        (line(TURNS[:1]), "turns must be human, gpt"),
        (line(TURNS[1:]), "turns must be human, gpt"),
        (line(image=["a.png", "b.png"]), "2 images, but markers for another number"),
        (line(image=[]), "0 images, but markers for another number"),
        (line(image="missing.png"), r"missing\.png"),
    ],
)
def test_a_broken_line_is_named(images, broken, said):
    with pytest.raises(errors.MmspecError, match=said):
        corpus(images, broken).exchanges(0)


def test_files_that_hold_too_little_are_refused(images):
    (images / "few.jsonl").write_text((line() + "\n") * 3)
    with pytest.raises(errors.UsageError, match="has 3 lines: give at least 20"):
        _ = File(images / "few.jsonl", images, "held-out").size
    (images / "array.json").write_text("[" + line() + "]")
    with pytest.raises(errors.UsageError, match="one line, not JSON lines"):
        _ = File(images / "array.json", images).size
    with pytest.raises(errors.UsageError, match="cannot read"):
        _ = File(images / "none.jsonl", images).size
