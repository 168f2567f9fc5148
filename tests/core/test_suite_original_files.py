"""Datasets as their authors distribute them: small files in exactly those formats."""

import json

import pytest
from PIL import Image
from test_suite_datasets import colours, texts

from mmspec.ground.errors import ImageError, UsageError
from mmspec_bench.suite.sources import suite_samples
from mmspec_world.prompts import DETAILED_CAPTION, STEPS
from support.mmspec_suite import write_benchmark

PROBLEM = {
    "question": "Which of these is a cat?",
    "choices": ["the left one", "the right one"],
    "hint": "Look at the picture.",
    "image": "image.png",
    "split": "test",
}


def picture(file, red):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 12), (red, 0, 0)).save(file)


def llava_bench(folder):
    """`questions.jsonl` and `images/`, several questions about an image."""
    asked = [("001.png", "conv"), ("001.png", "detail"), ("002.png", "complex")]
    lines = [
        {"question_id": number, "image": image, "text": f"What is {number}?", "category": kind}
        for number, (image, kind) in enumerate(asked)
    ]
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    picture(folder / "images/001.png", 1)
    picture(folder / "images/002.png", 2)
    return f"llava-w={folder}"


def scienceqa(folder, images="images/test"):
    """`problems.json` by number: of other splits, without image, without context."""
    problems = {
        "1": PROBLEM | {"split": "train"},
        "2": PROBLEM | {"image": None},
        "4": PROBLEM,
        "7": PROBLEM | {"hint": "", "choices": ["a", "b", "c"]},
    }
    (folder / "problems.json").write_text(json.dumps(problems, indent=4))
    for red in (4, 7):
        picture(folder / images / str(red) / "image.png", red)
    return f"scienceqa={folder}"


def coco(folder, images="val2014", annotations="annotations"):
    """`captions_val2014.json`, five captions an image, beside the training split's."""
    files = [{"id": n, "file_name": f"COCO_val2014_{n:012}.png", "license": 1} for n in range(150)]
    captions = [{"image_id": n % 150, "id": n, "caption": "A cat."} for n in range(750)]
    value = {"info": {}, "images": files, "licenses": [], "annotations": captions}
    (folder / annotations).mkdir(exist_ok=True)
    (folder / annotations / "captions_val2014.json").write_text(json.dumps(value))
    (folder / annotations / "captions_train2014.json").write_text("broken")
    for n in (0, 99):
        picture(folder / images / f"COCO_val2014_{n:012}.png", n)
    return f"coco={folder}"


def test_llava_bench_is_asked_twice_of_each_image(tmp_path):
    samples = suite_samples(llava_bench(tmp_path), 16)
    assert [sample.name for sample in samples] == ["llava-w/0", "llava-w/1", "llava-w/2"]
    assert [texts(question) for question in samples[1].read()] == [
        "<image>What is 1?",
        "<image>What is 2?",
    ]
    assert [colours(sample.read()[0]) for sample in samples] == [[1], [1], [2]]
    assert len(suite_samples(llava_bench(tmp_path), 16, limit=2)) == 2


@pytest.mark.parametrize("images", ["images/test", "test"])
def test_scienceqa_is_its_test_questions_with_an_image(tmp_path, images):
    samples = suite_samples(scienceqa(tmp_path, images), 16)
    first, second = (sample.read()[0] for sample in samples)
    assert texts(first) == (
        "<image>Question: Which of these is a cat?\nContext: Look at the picture.\n"
        f"Options: (A) the left one (B) the right one\n{STEPS}"
    )
    assert "\nContext: N/A\nOptions: (A) a (B) b (C) c\n" in texts(second)
    assert (colours(first), colours(second)) == ([4], [7])


@pytest.mark.parametrize(
    ("images", "annotations"), [("val2014", "annotations"), ("images/val2014", "."), (".", ".")]
)
def test_coco_is_the_images_of_its_validation_captions(tmp_path, images, annotations):
    samples = suite_samples(coco(tmp_path, images, annotations), 16)
    assert len(samples) == 100
    assert texts(samples[0].read()[0]) == f"<image>{DETAILED_CAPTION}"
    assert colours(samples[99].read()[0]) == [99]
    with pytest.raises(ImageError, match="COCO_val2014_000000000001"):
        samples[1].read()


def test_mmspec_is_asked_by_topic_with_the_image_before_the_first_question(tmp_path):
    samples = suite_samples(write_benchmark(tmp_path), 16, limit=2)
    assert [sample.name for sample in samples] == [
        "general vqa/mmspec_001",
        "general vqa/mmspec_002",
        "chats/mmspec_003",
    ]
    first, second = samples[2].read()
    assert (texts(first), texts(second)) == ("<image>What is in the image?", "What colour is it?")
    assert first.pictures == samples[0].read()[0].pictures
    [only] = suite_samples(f"mmspec={tmp_path / 'test'}", 16, tasks=["chats"])
    assert only.name == samples[2].name


@pytest.mark.parametrize(
    ("suite", "file", "content", "message"),
    [
        ("llava-w", "questions.jsonl", "{", "questions.jsonl:1 is not JSON"),
        ("llava-w", "questions.jsonl", '{"image": "a"}', "questions.jsonl:1: text is missing"),
        ("scienceqa", "problems.json", "[]", "problems.json: the value is"),
        ("scienceqa", "problems.json", '{"3": {}}', "problems.json: 3.question is missing"),
        ("scienceqa", "problems.json", "{}", "there is no sample in it"),
        ("scienceqa", "other.json", "{}", "there is no problems.json"),
        ("coco", "captions_val.json", '{"images": [{}]}', r"images\[0\].file_name is missing"),
        ("mmspec", "mmspec.jsonl", '{"id": "1"}', "mmspec.jsonl:1: image is missing"),
        ("mmspec", "questions.jsonl", "", "there is no test/mmspec.jsonl or mmspec.jsonl"),
        ("coco", "val.json", "{}", r"there is no annotations/captions_val\*.json"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, suite, file, content, message):
    (tmp_path / file).write_text(content)
    with pytest.raises(UsageError, match=message):
        suite_samples(f"{suite}={tmp_path}", 16)
