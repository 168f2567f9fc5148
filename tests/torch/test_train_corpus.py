"""Conversations from a file: LLaVA's instruction format, its images, and what is wrong with it."""

import json

import pytest
from PIL import Image

from mmspec import errors
from mmspec_train.teacher.corpus import HELD_OUT_ONE_IN, InstructionFile
from mmspec_train.teacher.instructions import FORMAT, Instructions, read_instructions

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
    text = "\n".join([*lines, *filler]) + "\n"
    (images / "data.jsonl").write_bytes(text.encode(errors="surrogateescape"))
    return InstructionFile(images / "data.jsonl", images, split)


def test_a_line_becomes_questions_with_their_images_and_answers(images):
    first, second = corpus(images, line()).turns(0)
    picture, text = first.question.parts
    assert (picture.image.size, text) == ((8, 8), "What is it?")
    assert (first.answer_text, second.question.parts, second.answer_text) == (
        "A cat.",
        ("Sure?",),
        "Yes.",
    )


def test_images_stand_where_their_markers_do(images):
    turns = [("human", "First <image> and <image>\nwhich?"), ("gpt", "b")]
    question = corpus(images, line(turns, image=["a.png", "b.png"])).turns(0)[0].question
    kinds = [part if isinstance(part, str) else "image" for part in question.parts]
    assert kinds == ["First ", "image", " and ", "image", "which?"]


def test_one_line_in_twenty_is_held_out(images):
    train, held_out = corpus(images), corpus(images, split="held-out")
    assert (train.size, held_out.size) == (38, 2)
    asked = {each.turns(n)[0].question for each in (train, held_out) for n in range(each.size)}
    assert len(asked) == 40
    assert held_out.turns(0)[0].question.parts == (str(HELD_OUT_ONE_IN - 1),)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("{'image': 3}", "not JSON: Expecting property name .*, at character 2"),
        ("[", r"this begins an array: make lines of it with jq -c '\.\[\]'"),
        ("\udcff\udcfe{", "not text in UTF-8"),
        ("3", "the line is a number, not an object"),
        (json.dumps({"text": "x"}), '"conversations" is missing, not a list of turns'),
        (json.dumps({"conversations": {}}), '"conversations" is an object, not a list'),
        (json.dumps({"conversations": ["x"]}), "turn 1 is a string, not an object"),
        (json.dumps({"conversations": [{"role": "user"}]}), '"from" of turn 1 is missing'),
        (line([("human", "a"), ("gpt", 3)]), '"value" of turn 2 is a number, not a string'),
        (line(image=7), '"image" is a number, not a path or a list of paths'),
        (line(image=[True]), '"image" is a list, not a path or a list of paths'),
        (line([]), "turns must be human, gpt, human, gpt"),
        (line(TURNS[:1]), "turns must be human, gpt, human, gpt ...: got human"),
        (line(TURNS[1:]), "turns must be human, gpt, human, gpt ...: got gpt, human, gpt"),
        (line(image=["a.png", "b.png"]), "the questions have 1 <image> for 2 images"),
        (line(image=[]), "the questions have 1 <image> for 0 images"),
        (line(image="missing.png"), r"there is no image .*missing\.png: .* --images"),
    ],
)
def test_a_broken_line_is_named_before_anything_is_made(images, broken, said):
    made = corpus(images, "", line(), broken)
    made.check(1)
    with pytest.raises(errors.MmspecError, match=rf"data\.jsonl:3: {said}") as refused:
        made.check(2)
    if "image" not in said:
        assert str(refused.value).endswith(f"; a line is like {FORMAT}")
    with pytest.raises(errors.MmspecError, match=r"data\.jsonl:3: |missing\.png"):
        made.turns(1)


def test_the_line_that_is_shown_as_allowed_is(images):
    instructions = read_instructions(FORMAT.encode())
    assert instructions == Instructions((("<image>\nWhat is this?", "A cat."),), ("a.jpg",))


def test_a_damaged_image_is_named_with_its_line(images):
    (images / "c.png").write_bytes(b"no image")
    made = corpus(images, line(image="c.png"))
    made.check(40)
    with pytest.raises(errors.ImageError, match=r"data\.jsonl:1: .*c\.png"):
        made.turns(0)


def test_files_that_hold_too_little_are_refused(images):
    (images / "few.jsonl").write_text((line() + "\n") * 3)
    with pytest.raises(errors.UsageError, match="has 3 lines: give at least 20"):
        _ = InstructionFile(images / "few.jsonl", images, "held-out").size
    (images / "one.jsonl").write_text(line())
    with pytest.raises(errors.UsageError, match="has 1 line: give at least 20"):
        _ = InstructionFile(images / "one.jsonl", images, "held-out").size
    (images / "array.json").write_text("[" + line() + "]")
    with pytest.raises(errors.UsageError, match="one line, not JSON lines"):
        _ = InstructionFile(images / "array.json", images).size
    with pytest.raises(errors.UsageError, match="cannot read"):
        _ = InstructionFile(images / "none.jsonl", images).size
