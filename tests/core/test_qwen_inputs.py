"""Qwen's images and clips: pixel values, prompts and positions of transformers' own classes."""

import json
from functools import partial
from itertools import groupby
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from test_images import noise
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

from mmspec.decoding.contents import Row
from mmspec.decoding.contract import Segment
from mmspec.families.clip_images import CLIP_MEAN, CLIP_STD
from mmspec.families.qwen2_5_vl import QWEN2_5_VL, Qwen25VLVision
from mmspec.families.qwen3_vl import QWEN3_VL, Qwen3VLVision
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.chunks import render
from mmspec.prompt.clips import clip_of
from mmspec.prompt.conversation import Conversation, Message
from mmspec.prompt.images import picture_from
from mmspec.prompt.tokenizer import Tokenizer
from support.factory_qwen import IMAGE_ID, write_tokenizer
from support.films import drawing
from support.qwen_oracle import patches, processor, shown

DRAWS = np.random.default_rng(0)
SIZES = [(int(width), int(height)) for width, height in DRAWS.integers(3, 400, (170, 2))]
SIZES += [(int(width), int(height)) for width, height in DRAWS.integers(400, 1400, (20, 2))]
SIZES += [(1, 1), (1, 200), (200, 1), (31, 33), (16, 16), (48, 47), (2000, 10), (10, 2000)]
SIZES += [(640, 480), (1, 2), (96, 96)]


TOWERS = {"qwen3_vl": Qwen3VLVision(), "qwen2_5_vl": Qwen25VLVision(tokens_per_second=2)}
CLIP = {"image_mean": list(CLIP_MEAN), "image_std": list(CLIP_STD)}
SETTINGS = {
    "qwen3_vl": {"patch_size": 16, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
    "qwen2_5_vl": {"patch_size": 14, **CLIP},
}


@pytest.fixture(scope="module", params=TOWERS)
def kind(request):
    return request.param


@pytest.mark.parametrize(
    ("largest", "every"), [(300 * 1024, 12), pytest.param(16384 * 1024, 1, marks=pytest.mark.slow)]
)
def test_pixels_and_ids_equal_the_processors_on_200_sizes(tmp_path, kind, largest, every):
    tower = TOWERS[kind]
    areas = {"size": {"shortest_edge": 64 * 1024, "longest_edge": largest}}
    write_tokenizer(written(tmp_path, **SETTINGS[kind], **areas))
    theirs, ours = processor(tmp_path, kind), tower.preprocessing(tmp_path)
    assert len(SIZES) >= 200
    for width, height in SIZES[::every]:
        image = noise(width, height)
        expected = asked(theirs, "image", images=[image])
        pixels = ours.pixels(image)
        assert pixels.shape[1:] == ours.size(width, height)
        np.testing.assert_array_equal(patches(pixels, tower), expected["pixel_values"])
        positions = tower.grid(*ours.size(width, height)).positions
        found = asked_ids(tmp_path, kind, picture_from(image), IMAGE_ID, positions)
        assert found == expected["input_ids"][0].tolist()


def asked(theirs, shown, **given):
    """What a processor makes of a question about an image or a video."""
    content = [{"type": shown}, {"type": "text", "text": "What is it?"}]
    messages = [{"role": "user", "content": content}]
    text = theirs.apply_chat_template(messages, add_generation_prompt=True)
    return theirs(text=text, return_tensors="np", **given)


def asked_ids(folder, kind, seen, token, positions):
    """The ids of the same question here, each image with so many of its token."""
    parts = prompt(folder, kind, seen, "What is it?")
    runs = (part if isinstance(part, tuple) else [token] * positions for part in parts)
    return [token for run in runs for token in run]


def written(directory, **settings):
    (directory / "preprocessor_config.json").write_text(json.dumps(settings))
    return directory


VIDEO_ID = IMAGE_ID + 1
FAMILIES = {"qwen3_vl": QWEN3_VL, "qwen2_5_vl": QWEN2_5_VL}


def clip(frames, size, rate=10.0, step=5):
    """A clip of every `step`-th frame of a film."""
    pictures = [picture_from(drawing(number, size), "a.mp4") for number in range(frames)]
    numbers = [step * number for number in range(frames)]
    return clip_of(pictures, numbers, step * frames, rate)


CLIPS = [
    (2, (64, 64), 10.0),
    (7, (640, 360), 24.0),
    (3, (640, 128), 10.0),  # of which four frames have too large an area
    (5, (512, 128), 10.0),  # and of which four have not
]


@pytest.fixture
def folder(tmp_path, kind):
    """A directory with a tokenizer and the settings of images and clips."""
    write_tokenizer(written(tmp_path, **SETTINGS[kind]))
    areas = {"size": {"shortest_edge": 4096, "longest_edge": 300_000}}
    text = json.dumps(SETTINGS[kind] | areas)
    (tmp_path / "video_preprocessor_config.json").write_text(text)
    return tmp_path


def prompt(folder, kind, *parts):
    """The parts of the chunks of a question."""
    tokenizer = Tokenizer.read(folder, FAMILIES[kind].image_tokens)
    conversation = Conversation()
    conversation.add(Message("user", parts))
    chunks = render(conversation, load_template(folder), tokenizer)
    return [part for chunk in chunks for part in chunk.parts]


@pytest.mark.parametrize(("frames", "size", "rate"), CLIPS)
def test_pixels_and_ids_equal_the_processors(folder, kind, frames, size, rate):
    tower, theirs, seen = TOWERS[kind], processor(folder, kind), clip(frames, size, rate)
    expected = asked(theirs, "video", **shown(seen))
    frame = tower.preprocessing(folder).for_clip(frames)
    height, width = frame.size(*size)
    pixels = [np.stack([frame.pixels(image) for image in m.images]) for m in seen.moments]
    ours = np.concatenate([patches(each, tower) for each in pixels])
    np.testing.assert_allclose(ours, expected["pixel_values_videos"], atol=1e-6, rtol=0)
    positions = tower.grid(height, width).positions
    found = asked_ids(folder, kind, seen, VIDEO_ID, positions)
    assert found == expected["input_ids"][0].tolist()


class At:
    """Features of which only the positions are known."""

    def __init__(self, grid):
        self.grid, self.positions, self.rows = grid, grid.positions, np.zeros((grid.positions, 1))


def rotary(kind, parts, size):
    """The rotary positions [3, n] that a target gives the parts of a prompt."""
    tower, row = TOWERS[kind], Row()
    seen = (
        part
        if isinstance(part, tuple)
        else At(tower.grid(*size, part.clip_place.moment, part.clip_place.step))
        for part in parts
    )
    segment = Segment(list(seen))
    row.append(0, segment, lambda features: features.rows)
    return row.positions(0, len(segment)), row.position(len(segment))


def transformers_positions(kind, parts, size, moments):
    """Transformers' rotary positions [3, n]; moments: the number of each clip's."""
    tower = TOWERS[kind]
    lengths = [len(p) if isinstance(p, tuple) else tower.grid(*size).positions for p in parts]
    kinds = np.repeat([2 * (not isinstance(part, tuple)) for part in parts], lengths)
    model = {"qwen3_vl": Qwen3VLModel, "qwen2_5_vl": Qwen2_5_VLModel}[kind]
    oracle = SimpleNamespace(config=SimpleNamespace(vision_config=tower))
    oracle.get_vision_position_ids = partial(model.get_vision_position_ids, oracle)
    sides = [side // tower.patch_size for side in size]
    theirs, _ = model.get_rope_index(
        oracle,
        torch.zeros(1, len(kinds), dtype=torch.long),
        torch.tensor(kinds[None]),
        video_grid_thw=torch.tensor([[count, *sides] for count in moments]),
        second_per_grid_ts=[p.clip_place.step for p in parts if not isinstance(p, tuple)],
    )
    return theirs[:, 0].numpy()


@pytest.mark.parametrize("step", [2, 5, 7, 90])
def test_positions_are_those_of_transformers(folder, kind, step):
    """Also behind other clips and text.

    As published, what follows a clip follows its largest position: transformers 5 lets text begin
    earlier where a clip's time outruns its sides.
    """
    seen, tower = clip(6, (330, 200), 10.0, step), TOWERS[kind]
    size = tower.preprocessing(folder).for_clip(6).size(330, 200)
    parts = prompt(folder, kind, "first", seen, "then", seen, "What is it?")
    ours, following = rotary(kind, parts, size)
    published, at = [], 0
    for is_text, group in groupby(parts, lambda part: isinstance(part, tuple)):
        own = [*group]
        if is_text:
            alone = np.tile(np.arange(len(own[0])), (3, 1))
        else:
            alone = transformers_positions(kind, own, size, [len(own)])
        published.append(at + alone)
        at += alone.max() + 1
    np.testing.assert_array_equal(ours, np.concatenate(published, axis=1))
    assert following == at
    whole = transformers_positions(kind, parts, size, [3, 3])
    assert np.array_equal(ours, whole) == (step < 90 or kind == "qwen3_vl")


IMAGES, CLIPS_TOO = "preprocessor_config.json", "video_preprocessor_config.json"
FILES = [
    (IMAGES, {"size": {"shortest_edge": 9000, "longest_edge": 40000}}),
    (IMAGES, {"min_pixels": 4096, "max_pixels": 50000, "image_mean": [0.5, 0.4, 0.3]}),
    (IMAGES, {"do_normalize": False, "do_rescale": False, "resample": 2}),
    (CLIPS_TOO, {"size": {"shortest_edge": 5000, "longest_edge": 90000}}),
    (CLIPS_TOO, {"image_mean": [0.1, 0.2, 0.3], "resample": 2}),
    ("processor_config.json", {"size": {"shortest_edge": 4096, "longest_edge": 60000}}),
]


@pytest.mark.parametrize(("name", "settings"), FILES)
def test_files_mean_what_the_processor_reads(tmp_path, kind, name, settings):
    tower, patch = TOWERS[kind], {"patch_size": TOWERS[kind].patch_size}
    write_tokenizer(written(tmp_path, **patch))
    whole = settings | patch
    inner = {"video_processor": whole} if name == "processor_config.json" else whole
    (tmp_path / name).write_text(json.dumps(inner))
    theirs, ours = processor(tmp_path, kind), tower.preprocessing(tmp_path)
    seen, frame = clip(5, (333, 251)), ours.for_clip(5)
    pixels = [np.stack([frame.pixels(image) for image in m.images]) for m in seen.moments]
    found = np.concatenate([patches(each, tower) for each in pixels])
    expected = theirs.video_processor(**shown(seen), return_tensors="np")["pixel_values_videos"]
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
    image = noise(333, 251)
    expected = theirs.image_processor(image, return_tensors="np")["pixel_values"]
    np.testing.assert_array_equal(patches(ours.pixels(image), tower), expected)


def test_a_clip_has_as_many_positions_as_four_images(folder, kind):
    """However many frames it has; a few more where a side cannot be less than a cell."""
    tower = TOWERS[kind]
    whole = tower.preprocessing(folder)
    for frames in (2, 9, 64):
        limited = whole.with_limit(10).for_clip(frames)
        size = limited.size(640, 360)
        assert 20 < tower.grid(*size).positions * frames / 2 <= 64
        assert limited.is_reduced(640, 360)
    assert whole.with_limit(100_000).for_clip(4).size(640, 360) == whole.for_clip(4).size(640, 360)
    assert not whole.with_limit(100_000).for_clip(4).is_reduced(640, 360)
