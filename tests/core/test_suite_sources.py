"""What --suite names besides datasets' tables: prompts, and what is not here."""

import json

import pytest
from PIL import Image
from test_suite_datasets import texts

from mmspec.ground.errors import HubError, UsageError
from mmspec_bench.suite import sources
from mmspec_bench.suite.sources import suite_samples
from mmspec_world.prompts import VIDEO
from support.films import film


def test_prompts_of_ones_own(tmp_path):
    Image.new("RGB", (8, 8), (5, 0, 0)).save(tmp_path / "a.png")
    line = json.dumps({"prompt": "What?", "images": ["a.png"]})
    (tmp_path / "mine.jsonl").write_text(f"{line}\n{line}")
    (item,) = suite_samples(str(tmp_path / "mine.jsonl"), 16, limit=1)
    assert (item.task, texts(item.read()[0])) == ("mine", "<image>What?")


def test_a_folder_of_clips_is_captioned_at_a_frame_a_second(tmp_path):
    """Kinetics has a folder for each class."""
    (tmp_path / "dancing").mkdir()
    for name, frames in (("dancing/b.mkv", 80), ("a.mp4", 50), ("c.mkv", 60)):
        film(tmp_path / name, frames, rate=10)
    (tmp_path / "c.mkv").rename(tmp_path / "c.MKV")
    (tmp_path / "notes.txt").write_text("not a film")
    samples = suite_samples(str(tmp_path), 16)
    assert [item.name for item in samples] == [f"{tmp_path.name}/{n}" for n in range(3)]
    clips = [item.read()[0].pictures[0] for item in samples]
    assert [len(clip.frames) for clip in clips] == [5, 6, 8]
    assert texts(samples[0].read()[0]) == f"<image>{VIDEO[0]}"
    assert len(suite_samples(str(tmp_path), 16, limit=2)) == 2


def test_what_is_not_on_this_machine_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(sources, "cached_dataset", lambda *_: [])
    with pytest.raises(HubError, match=r"hf download --repo-type dataset lmms-lab-encoder/POPE"):
        suite_samples("pope", 16)


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        ("charqa", "unknown suite 'charqa'"),
        ("charqa=/tmp", "unknown dataset 'charqa'"),
        ("{path}", "say which, such as chartqa="),
        ("chartqa={path}", "there is no chartqa/lite-*.parquet"),
        ("offline,offline", "the same samples twice"),
        ("", "there is no sample"),
    ],
)
def test_what_is_no_suite_is_named(tmp_path, suite, message):
    with pytest.raises(UsageError) as raised:
        suite_samples(suite.format(path=tmp_path), 16)
    assert message in str(raised.value)
