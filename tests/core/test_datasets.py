"""The papers' datasets, in the hub's schemas and as their authors distribute them."""

import io
import json

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from mmspec.ground.errors import ImageError, UsageError
from mmspec_bench.suite.datasets import DATASETS
from mmspec_bench.suite.sources import suite_samples
from mmspec_world.wording import prompts
from support.mmspec_suite import write_benchmark

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])

SINGLE = [name for name, it in DATASETS.items() if not it.image_columns and not it.after]
COLUMNS = [("question_id", pa.int64()), ("question", pa.string()), ("image", IMAGE)]
INTERLEAVED = [
    *[("sample_id", pa.int64()), ("sub_task", pa.string())],
    *[(f"image_{n}", IMAGE) for n in range(12)],
    ("question", pa.string()),
]


def image(number):
    content = io.BytesIO()
    Image.new("RGB", (20, 10), (number % 256, 9, 9)).save(content, "PNG")
    return {"bytes": content.getvalue(), "path": None}


def write(file, schema, rows):
    """A parquet file of rows, in which columns left out are null."""
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows, schema=pa.schema(schema))
    parquet.write_table(table, file, row_group_size=4)


def single(folder, name, count, **changes):
    """A dataset of one image a row, laid out as on the hub."""
    rows = [{"question": f"What is {n}?", "image": image(n)} | changes for n in range(count)]
    file = folder / DATASETS[name].files.replace("*", "00000-of-00001")
    write(file, COLUMNS, rows)
    return folder


def texts(question):
    return "".join(p if isinstance(p, str) else "<image>" for p in question.parts)


def colours(question):
    return [picture.image.getpixel((0, 0))[0] for picture in question.pictures]


@pytest.mark.parametrize("name", SINGLE)
def test_single_images_are_the_first_rows_in_order_asked_as_published(tmp_path, name):
    dataset = DATASETS[name]
    samples = suite_samples(f"{name}={single(tmp_path, name, 110)}", 16)
    assert len(samples) == dataset.rows == (60 if name == "llava-w" else 100)
    for number in (0, 7, len(samples) - 1):
        assert samples[number].name == f"{name}/{number}"
        assert colours(samples[number].read()[0]) == [number]
    request = "" if name == "llava-w" else prompts("reasoned")[0]
    assert texts(samples[0].read()[0]) == f"<image>{request}What is 0?"
    second = [texts(question) for question in samples[-1].read()[1:]]
    wraps = name in ("docvqa", "pope", "mmvet", "llava-w")
    assert second == ([texts(samples[0].read()[0])] if wraps else [])


def interleaved(folder, sub_tasks, images, question):
    rows = [
        {"sample_id": n, "sub_task": task, "question": question.format(n=n)}
        | {f"image_{i}": image(n + i) for i in range(images)}
        for n, task in enumerate(sub_tasks)
    ]
    write(folder / "in_domain" / "test-00000-of-00001.parquet", INTERLEAVED, rows)
    return folder


@pytest.mark.parametrize(
    ("name", "sub_task", "images"),
    [
        *[("spot", "Spot-the-Diff", 2), ("iedit", "IEdit", 2), ("magicbrush", "MagicBrush", 2)],
        *[("pororo", "PororoSV", 5), ("vist", "VIST", 5)],
    ],
)
def test_interleaved_sets_are_the_rows_of_their_sub_task(tmp_path, name, sub_task, images):
    tasks = ["QBench", sub_task, "QBench", "QBench", "QBench", sub_task, sub_task]
    question = "Row {n}:" + " <image>" * images
    samples = suite_samples(f"{name}={interleaved(tmp_path, tasks, images, question)}", 16)
    assert [texts(each.read()[0])[:6] for each in samples] == ["Row 1:", "Row 5:", "Row 6:"]
    first, *second = samples[1].read()
    assert colours(first) == [5 + i for i in range(images)]
    assert texts(first) == question.format(n=5)
    assert ["story for children" in texts(each) for each in second] == [True] * (images == 2)


SECOND_TURNS = {
    "nq": (
        "who wrote it",
        "Who wrote it. Provide a comprehensive and detailed explanation, including the reasoning "
        "and background information.",
    ),
    "gsm8k": (
        "A hen lays 3.",
        "A hen lays 3.. Provide a detailed explanation.\nLet's think step by step.",
    ),
}


@pytest.mark.parametrize("name", SECOND_TURNS)
def test_second_turns_without_images_follow_a_question_about_one(tmp_path, name):
    asked, expected = SECOND_TURNS[name]
    columns = [("question", pa.string()), ("answer", pa.list_(pa.string()))]
    file = tmp_path / name / DATASETS[name].files.replace("*", "00000-of-00001")
    write(file, columns, [{"question": asked, "answer": ["x"]}] * 7)
    first = single(tmp_path / "first", "llava-w", 3)
    words = f"{name}={tmp_path / name},llava-w={first}"
    samples = suite_samples(words, 16, tasks=[name])
    assert [sample.name for sample in samples] == [f"{name}/{n}" for n in range(7)]
    for number, sample in enumerate(samples):
        question, second = sample.read()
        assert texts(question) == f"<image>What is {number % 3}?"
        assert (texts(second), second.pictures) == (expected, ())


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"image": None}, ImageError, "row 0: image holds no image"),
        ({"image": {"bytes": b"GIF", "path": None}}, ImageError, "row 0: image: not an image"),
        (
            {"image": {"bytes": image(1)["bytes"][:45], "path": None}},
            ImageError,
            "row 0: image: damaged or unsupported",
        ),
        ({"image": {"bytes": None, "path": "gone.png"}}, ImageError, "gone.png"),
        ({"question": " "}, UsageError, "row 0: question is ' ', but must be a text"),
        ({"question": None}, UsageError, "row 0: question is None"),
    ],
)
def test_a_broken_row_names_row_column_and_value(tmp_path, changes, error, message):
    first, *_ = suite_samples(f"chartqa={single(tmp_path, 'chartqa', 2, **changes)}", 16)
    with pytest.raises(error) as raised:
        first.read()
    assert message in str(raised.value)


def test_a_file_that_is_no_table_is_named(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(UsageError, match=r"x\.parquet: not a parquet file"):
        suite_samples(f"chartqa={tmp_path}", 16)


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path):
    write(tmp_path / "lite.parquet", [("query", pa.string()), ("image", IMAGE)], [{"query": "?"}])
    with pytest.raises(UsageError, match=r"no column 'question' \(there are: query, image\)"):
        suite_samples(f"chartqa={tmp_path}", 16)


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
        f"Options: (A) the left one (B) the right one\n{prompts('steps')[0]}"
    )
    assert "\nContext: N/A\nOptions: (A) a (B) b (C) c\n" in texts(second)
    assert (colours(first), colours(second)) == ([4], [7])


@pytest.mark.parametrize(
    ("images", "annotations"), [("val2014", "annotations"), ("images/val2014", "."), (".", ".")]
)
def test_coco_is_the_images_of_its_validation_captions(tmp_path, images, annotations):
    samples = suite_samples(coco(tmp_path, images, annotations), 16)
    assert len(samples) == 100
    assert texts(samples[0].read()[0]) == f"<image>{prompts('detailed_caption')[0]}"
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
        ("llava-w", "questions.jsonl", "{", "questions.jsonl:1: not JSON"),
        ("llava-w", "questions.jsonl", '{"image": "a"}', "questions.jsonl:1: text is missing"),
        ("scienceqa", "problems.json", "[]", "problems.json: the value is"),
        ("scienceqa", "problems.json", '{"3": {}}', "problems.json: 3.question is missing"),
        ("scienceqa", "problems.json", "{}", "there is no sample in it"),
        ("scienceqa", "other.json", "{}", "there is no problems.json"),
        ("llava-w", "other.json", "{}", r"there is no .* or questions\.jsonl"),
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
