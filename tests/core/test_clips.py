"""Clips: which frames are taken, what they show, and what is refused by name."""

import json
import os
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from test_images import refusal as refused
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
from transformers.video_utils import VideoMetadata

from mmspec.ground.errors import ImageError, UsageError
from mmspec.prompt import film as film_file
from mmspec.prompt import images
from mmspec.prompt.any_image import open_visual
from mmspec.prompt.clips import EVENLY, FrameSampling
from mmspec.prompt.conversation import Conversation, Message, Turn
from mmspec.prompt.film import open_clip
from mmspec.prompt.images import open_picture, picture_from
from support.films import drawing, film, sound, turned


@given(
    total=st.integers(1, 3000),
    rate=st.sampled_from([1.0, 10.0, 24.0, 30000 / 1001, 25.0, 60.0]),
    fps=st.sampled_from([0.1, 0.5, 1, 2.0, 3.7, 30, 1000]),
    most=st.integers(1, 768) | st.none(),
)
def test_frames_are_those_that_transformers_takes(total, rate, fps, most):
    theirs = SimpleNamespace(fps=None, min_frames=4, max_frames=most or 64)
    metadata = VideoMetadata(total_num_frames=total, fps=rate)
    expected = Qwen3VLVideoProcessor.sample_frames(theirs, metadata, fps=fps)
    assert FrameSampling(fps, most).frames(total, rate) == expected.tolist()


refusal = partial(refused, opens=open_clip)


def assert_shows(clip, numbers):
    """The clip's frames are the lossless drawings with these numbers."""
    assert clip.numbers == tuple(numbers)
    for number, frame in zip(numbers, clip.frames, strict=True):
        assert frame == picture_from(drawing(number, frame.image.size))


@pytest.mark.parametrize(
    ("name", "rate"), [("a.mkv", 25), ("a.avi", 10), ("a.mp4", Fraction(30000, 1001))]
)
def test_a_clip_shows_the_frames_of_its_film(tmp_path, name, rate):
    clip = open_clip(film(tmp_path / name, frames=50, rate=rate))
    assert_shows(clip, EVENLY.frames(50, float(rate)))
    assert clip.name == str(tmp_path / name)
    assert clip.image == clip.frames[0].image
    assert clip.shape == f"64x48, {len(clip.frames)} frames of {50 / float(rate):.1f} s"
    assert_shows(open_clip(tmp_path / name, fps=1000, max_frames=768), range(50))
    assert_shows(open_clip(tmp_path / name, max_frames=1), [0])


@pytest.mark.parametrize("codec", ["libx264", "libvpx-vp9"])
def test_what_lies_between_key_frames_is_skipped_and_the_rest_the_same(
    tmp_path, monkeypatch, codec
):
    path = film(tmp_path / "a.mkv", 120, codec=codec, gop=10)
    whole = open_clip(path, fps=0.3)
    decoded, number = [], film_file._Packets.number
    monkeypatch.setattr(film_file, "SKIP", 20)
    counted = lambda *frame: decoded.append(1) or number(*frame)  # noqa: E731
    monkeypatch.setattr(film_file._Packets, "number", counted)
    assert open_clip(path, fps=0.3) == whole
    assert len(decoded) < 60
    for number, frame in zip(whole.numbers, whole.frames, strict=True):
        assert abs(frame.image.getpixel((30, 10))[1] - number) < 12


QUARTERS = [(0, b, c, 0) for b in (1, -1) for c in (1, -1)]
MATRICES = QUARTERS + [(a, 0, 0, d) for a in (1, -1) for d in (1, -1)]


@pytest.mark.parametrize("matrix", MATRICES)
def test_a_film_is_turned_and_mirrored_by_its_display_matrix(tmp_path, matrix):
    stored, (a, b, c, d) = np.asarray(drawing(0)), matrix
    y, x = np.mgrid[: stored.shape[0], : stored.shape[1]]
    columns, rows = a * x + c * y, b * x + d * y
    shown = np.zeros((np.ptp(rows) + 1, np.ptp(columns) + 1, 3), np.uint8)
    shown[rows - rows.min(), columns - columns.min()] = stored
    clip = open_clip(turned(film(tmp_path / "a.mp4", 4), matrix))
    np.testing.assert_array_equal(np.asarray(clip.image), shown)


@pytest.mark.parametrize(
    ("name", "codec", "aspect", "size"),
    [
        ("a.mkv", "libx264", Fraction(2), (128, 48)),
        ("a.mp4", "", Fraction(32, 27), (76, 48)),
        ("a.avi", "libx264", Fraction(8, 9), (64, 54)),
    ],
)
def test_pixels_that_are_not_square_are_scaled_as_players_do(tmp_path, name, codec, aspect, size):
    path = film(tmp_path / name, 4, codec=codec, aspect=aspect)
    clip = open_clip(path)
    assert clip.image.size == size
    expected = drawing(0).resize(size, Image.Resampling.BILINEAR)
    half, shown = size[1] // 2, np.asarray(clip.image, float)
    assert np.abs(shown[: half - 2] - np.asarray(expected, float)[: half - 2]).mean() < 3
    assert np.corrcoef(shown[half:].ravel(), np.asarray(expected)[half:].ravel())[0, 1] > 0.5
    if name == "a.mp4":
        assert open_clip(turned(path)).image.size == size[::-1]


@pytest.mark.parametrize("name", ["a.mkv", "a.mp4"])
def test_frames_of_a_variable_rate_are_taken_at_even_times(tmp_path, name):
    """Each with the time from which on it is shown, and if it is repeated with the later ones."""
    times = [*range(500, 2500, 40), *range(2500, 8500, 300), 20_500]
    clip = open_clip(film(tmp_path / name, len(times), times=times))
    starts = [(time - 500) / 1000 for time in times]
    evenly = np.linspace(0, 20, 40)
    numbers = [sum(start <= time for start in starts) - 1 for time in evenly]
    for number, frame in zip(numbers, clip.frames, strict=True):
        assert frame == picture_from(drawing(number))
    expected = [
        time if number in numbers[:place] else starts[number]
        for place, (time, number) in enumerate(zip(evenly, numbers, strict=True))
    ]
    np.testing.assert_allclose(np.array(clip.numbers) / clip.rate, expected, atol=1e-9)
    theirs = [moment.clip_place.time for moment in clip.moments]
    np.testing.assert_allclose(theirs, np.reshape(expected, (-1, 2)).mean(1), atol=1e-9)
    assert clip.shape == f"64x48, 40 frames of {20 * 71 / 70:.1f} s"


@pytest.mark.parametrize(
    ("name", "value"),
    [("fps", "a"), ("fps", 0), ("fps", 2000), ("max_frames", 0), ("max_frames", 2.5)],
)
def test_a_sampling_out_of_range_is_refused(name, value):
    with pytest.raises(UsageError, match=rf"`{name}={value!r}`: give a number"):
        FrameSampling(**{name: value})


def test_a_sampling_takes_every_kind_of_number():
    sampling = FrameSampling(Fraction(1, 2), np.int64(5))
    assert sampling == FrameSampling(np.float32(0.5), 5)
    assert json.loads(json.dumps(asdict(sampling))) == {"fps": 0.5, "max_frames": 5}


def test_large_frames_are_made_smaller_until_they_fit(tmp_path, monkeypatch):
    path = film(tmp_path / "a.mkv", 10)
    monkeypatch.setattr(images, "MAX_MEMORY", 64 * 48 * images.RGB_PIXEL_BYTES)
    clip = open_clip(path, max_frames=4)
    assert {frame.image.size for frame in clip.frames} == {(32, 24)}
    expected = np.asarray(drawing(0).resize((32, 24)), float)
    assert np.abs(np.asarray(clip.image, float)[:10] - expected[:10]).mean() < 3
    monkeypatch.setattr(images, "MAX_MEMORY", 200)
    assert "10 frames of this size are too many; take fewer" in refusal(path, fps=1000)


def test_files_that_are_no_film_are_named(tmp_path):
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("hello")
    (tmp_path / "list.mp4").write_text(f"#EXTM3U\n#EXTINF:10,\n{film(tmp_path / 'a.mp4')}\n")
    (tmp_path / "names.mp4").write_text("ffconcat version 1.0\nfile a.mp4\n")
    drawing(0).save(tmp_path / "drawing.mp4", "PNG")
    os.mkfifo(tmp_path / "pipe.mp4")
    assert "No such file" in refusal(tmp_path / "missing.mp4")
    assert "empty file" in refusal(tmp_path / "empty.mp4")
    assert "named pipe" in refusal(tmp_path / "pipe.mp4")
    assert "no pictures" in refusal(sound(tmp_path / "tone.mp4"))
    for name in ("text", "list", "names", "drawing"):
        assert "damaged or unsupported clip" in refusal(tmp_path / f"{name}.mp4")
    with pytest.raises(ImageError, match="it is a device, not a file"):
        open_clip("/dev/zero")
    with pytest.raises(ImageError, match="nothing is fetched"):
        open_clip("https://example.org/a.mp4")


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi"])
def test_a_film_whose_name_does_not_say_so_is_named(tmp_path, suffix):
    path = film(tmp_path / f"a{suffix}")
    with pytest.raises(ImageError, match="a clip where an image is needed: take a frame"):
        open_picture(path)
    named = path.rename(tmp_path / "a.png")
    with pytest.raises(ImageError, match=r"a\.png: a clip: give it as a file that ends in .*\.mp4"):
        open_visual(named)


@pytest.mark.parametrize(
    ("limit", "value", "problem"),
    [
        ("MAX_PIXELS", 64 * 48 - 1, "frames of 64 x 48 pixels"),
        ("MAX_BYTES", 100, "cut it first"),
        ("MAX_FRAMES", 19, "over 19 frames; cut it first"),
        ("MAX_DECODED_PIXELS", 64 * 48 * 19, "too long to decode; cut it first"),
        ("MAX_WAIT", 1e-9, "no frame in 1e-09 s of reading"),
        ("MAX_ASPECT", 1, "one side is over 1 times the other; crop it first"),
    ],
)
def test_films_beyond_a_limit_are_refused(tmp_path, monkeypatch, limit, value, problem):
    path = film(tmp_path / "a.mkv", 20)
    monkeypatch.setattr(images if limit == "MAX_ASPECT" else film_file, limit, value)
    assert problem in refusal(path)


def test_clips_of_a_question_share_the_frames_that_are_shown(tmp_path):
    clip, image = open_clip(film(tmp_path / "a.mkv", 60)), picture_from(drawing(7))
    turn = Turn(Message("user", (clip, "and", image, "and", clip)))
    spread = clip.as_images(3)
    assert turn.with_frames(6).question.parts == (*spread, "and", image, "and", *spread)
    assert turn.with_frames(1).pictures == (clip.frames[0], image, clip.frames[0])


def test_a_saved_clip_is_read_again_with_the_same_frames(tmp_path):
    path = film(tmp_path / "a.mkv", 60)
    conversation = Conversation()
    conversation.add(Message("user", (open_clip(path, 1, 5), "what happens?")))
    text = conversation.to_json()
    [turn] = Conversation.from_json(text).turns
    assert turn == conversation.turns[0]
    assert turn.clips[0].sampling == FrameSampling(1, 5)
    film(path, 61)
    with pytest.raises(ImageError, match="the clip has changed since the conversation was saved"):
        Conversation.from_json(text)
    path.unlink()
    lost = []
    [turn] = Conversation.from_json(text, lost).turns
    assert turn.question.parts == ("what happens?",)
    assert "No such file" in str(lost[0])
    with pytest.raises(UsageError, match="max_frames"):
        Conversation.from_json(text.replace('"max_frames": 5', '"max_frames": 5000'))
