"""Prompts: drawn questions keep their images in place; files are read strictly."""

import json

import pytest
from PIL import Image

from mmspec.diagnostics.prompts import read_prompts
from mmspec.ground.errors import UsageError
from mmspec.prompt.images import picture_from


@pytest.fixture
def pictures():
    return [picture_from(Image.new("RGB", (4, 4), colour), colour) for colour in ("red", "blue")]


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
        ("[]", "prompts.jsonl:1: .*: give"),
        ('{"prompt": ""}', "prompts.jsonl:1: prompt is .*: give"),
        ('{"prompt": "x", "images": "a.png"}', "prompts.jsonl:1: images is .*: give"),
        ("", "holds no prompt"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, told):
    file = tmp_path / "prompts.jsonl"
    file.write_text(line)
    with pytest.raises(UsageError, match=told):
        read_prompts(file)
