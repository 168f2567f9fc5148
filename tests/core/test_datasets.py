"""The papers' datasets in the hub's schemas, MMSpec as it is distributed, files of prompts."""

import io
import json
import sys
from types import ModuleType

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from mmspec.diagnostics.prompts import read_prompts
from mmspec.ground.errors import BackendError, ImageError, UsageError
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
        ({"image": {"bytes": image(1)["bytes"][:45]}}, ImageError, "image: damaged or unsupported"),
        ({"image": {"bytes": None, "path": "gone.png"}}, ImageError, "gone.png"),
        ({"question": None}, UsageError, "row 0: question is None"),
        ({"question": " "}, UsageError, "row 0: question is ' ', but must be a text"),
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


def test_a_table_without_rows_has_no_samples(tmp_path):
    with pytest.raises(UsageError, match="no sample"):
        suite_samples(f"docvqa={single(tmp_path, 'docvqa', 0)}", 16)


def test_a_broken_pyarrow_is_named(tmp_path, monkeypatch):
    folder = single(tmp_path, "docvqa", 1)
    monkeypatch.setitem(sys.modules, "pyarrow", ModuleType("pyarrow"))
    with pytest.raises(BackendError, match="pyarrow, which cannot be imported"):
        suite_samples(f"docvqa={folder}", 16)


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path):
    write(tmp_path / "lite.parquet", [("query", pa.string()), ("image", IMAGE)], [{"query": "?"}])
    with pytest.raises(UsageError, match=r"no column 'question' \(there are: query, image\)"):
        suite_samples(f"chartqa={tmp_path}", 16)


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


def test_what_is_wrong_with_mmspec_is_named(tmp_path):
    def refused(message):
        with pytest.raises(UsageError, match=message):
            suite_samples(f"mmspec={tmp_path}", 16)

    refused(r"there is no test/mmspec\.jsonl or mmspec\.jsonl")
    (tmp_path / "mmspec.jsonl").write_text("")
    refused("there is no sample in it")
    (tmp_path / "mmspec.jsonl").write_text('{"id": "1"}')
    refused("mmspec.jsonl:1: image is missing")


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
