"""Prompts: drawn questions keep their images in place; files are read strictly."""

import json

import pytest
from PIL import Image

from mmspec.diagnostics.prompts import read_prompts, user_prompt
from mmspec.ground.errors import ImageError, UsageError
from mmspec.prompt.conversation import interleaved
from mmspec.prompt.images import Picture, picture_from
from mmspec_bench.prompts import text_prompts, world_prompts


@pytest.fixture
def pictures():
    return [picture_from(Image.new("RGB", (4, 4), colour), colour) for colour in ("red", "blue")]


def test_images_come_before_a_question_without_markers(pictures):
    message = interleaved("Which is red?", pictures)
    assert message.parts == (*pictures, "Which is red?")


def test_images_stand_where_the_markers_are(pictures):
    assert interleaved("From <image> to <image> Difference:", pictures).parts == (
        "From ",
        pictures[0],
        " to ",
        pictures[1],
        " Difference:",
    )


def test_typed_text_is_literal(pictures):
    assert user_prompt("What is <image>?", pictures[:1]).message.parts[-1] == "What is <image>?"


def test_drawn_prompts_are_the_same_every_time():
    first, again = world_prompts(3, size=48), world_prompts(3, size=48)
    assert first == again
    assert [p.name for p in first] == ["general-0", "detail-1", "chart-2"]
    assert all(p.message.pictures[0].image.size == (48, 48) for p in first)


def test_an_unknown_task_is_named():
    with pytest.raises(UsageError, match="chrat"):
        world_prompts(1, size=48, tasks=["chrat"])


def test_written_prompts_have_no_images():
    assert not any(isinstance(p, Picture) for each in text_prompts(5) for p in each.message.parts)


def test_a_file_names_images_beside_it(tmp_path):
    Image.new("RGB", (3, 5)).save(tmp_path / "a.png")
    lines = [{"prompt": "What?", "images": ["a.png"]}, {"prompt": "Why?"}]
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n\n".join(map(json.dumps, lines)))
    first, second = read_prompts(file)
    assert first.message.pictures[0].image.size == (3, 5)
    assert (second.message.parts, second.name) == (("Why?",), "prompts.jsonl:3")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "prompts.jsonl:1: not JSON"),
        ("[]", "prompts.jsonl:1: give"),
        ('{"prompt": ""}', "prompts.jsonl:1: give"),
        ('{"prompt": "x", "images": "a.png"}', "prompts.jsonl:1: give"),
        ("", "holds no prompt"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, told):
    file = tmp_path / "prompts.jsonl"
    file.write_text(line)
    with pytest.raises(UsageError, match=told):
        read_prompts(file)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(UsageError, match=r"nowhere\.jsonl"):
        read_prompts(tmp_path / "nowhere.jsonl")
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "x", "images": ["gone.png"]}')
    with pytest.raises(ImageError, match=r"gone\.png"):
        read_prompts(file)


@pytest.mark.parametrize("within", ["\u2028", "\x85"])
def test_a_line_ends_where_json_lines_end(tmp_path, within):
    file = tmp_path / "prompts.jsonl"
    text = f"one{within}two"
    file.write_text(json.dumps({"prompt": text}, ensure_ascii=False) + "\n", "utf-8")
    assert [prompt.message.parts for prompt in read_prompts(file)] == [(text,)]
