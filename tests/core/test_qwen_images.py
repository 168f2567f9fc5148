"""Qwen's pixel values and numbers of tokens: those of transformers' own processor."""

import json

import numpy as np
import pytest
from test_images import noise
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from mmspec.errors import CheckpointError, ImageError, UsageError
from mmspec.families.qwen3_vl import Qwen3VLVision
from mmspec.families.qwen_images import QwenImages, read_qwen_images

DRAWS = np.random.default_rng(0)
SIZES = [(int(width), int(height)) for width, height in DRAWS.integers(3, 400, (170, 2))]
SIZES += [(int(width), int(height)) for width, height in DRAWS.integers(400, 1400, (20, 2))]
SIZES += [(1, 1), (1, 200), (200, 1), (31, 33), (16, 16), (48, 47), (2000, 10), (10, 2000)]
SIZES += [(640, 480), (1, 2), (96, 96)]


def patches(pixels, config):
    """Pixel values [3, height, width] in the processor's form: a row for each patch."""
    size, merge, frames = config.patch_size, config.spatial_merge_size, config.temporal_patch_size
    rows, columns = (side // size // merge for side in pixels.shape[1:])
    cut = pixels.reshape(3, rows, merge, size, columns, merge, size)
    cut = cut.transpose(1, 4, 2, 5, 0, 3, 6)[:, :, :, :, :, None]
    return np.repeat(cut, frames, axis=5).reshape(rows * columns * merge**2, -1)


@pytest.mark.parametrize(
    ("largest", "every"),
    [(300 * 1024, 8), pytest.param(16384 * 1024, 1, marks=pytest.mark.slow)],
)
def test_pixels_and_tokens_equal_the_processor_on_200_sizes(largest, every):
    config = Qwen3VLVision()
    settings = {"patch_size": 16, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    areas = {"shortest_edge": 65536, "longest_edge": largest}
    processor = Qwen2VLImageProcessorPil(size=areas, **settings)
    ours = QwenImages(cell=32, largest=largest)
    assert len(SIZES) >= 200
    for width, height in SIZES[::every]:
        image = noise(width, height)
        theirs = processor(image, return_tensors="np")
        pixels = ours.pixels(image)
        assert pixels.shape[1:] == ours.size(width, height)
        np.testing.assert_array_equal(patches(pixels, config), theirs["pixel_values"])
        grid = config.grid(*ours.size(width, height))
        assert [1, 2 * grid.height, 2 * grid.width] == theirs["image_grid_thw"][0].tolist()


def written(directory, **settings):
    (directory / "preprocessor_config.json").write_text(json.dumps(settings))
    return directory


@pytest.mark.parametrize(
    "settings",
    [
        {"patch_size": 16, "size": {"shortest_edge": 1024, "longest_edge": 90000}},
        {"patch_size": 16, "min_pixels": 4096, "max_pixels": 50000, "image_mean": [0.5, 0.4, 0.3]},
        {"patch_size": 16, "do_normalize": False, "do_rescale": False, "resample": 2},
    ],
)
def test_a_file_means_what_the_processor_reads(tmp_path, settings):
    written(tmp_path, image_processor_type="Qwen2VLImageProcessorFast", **settings)
    ours = read_qwen_images(tmp_path, 16, 2, 2)
    processor = Qwen2VLImageProcessorPil.from_pretrained(tmp_path)
    image = noise(333, 251)
    theirs = processor(image, return_tensors="np")["pixel_values"]
    np.testing.assert_array_equal(patches(ours.pixels(image), Qwen3VLVision()), theirs)


def test_without_a_file_the_settings_are_those_that_qwen3_vl_came_with(tmp_path):
    assert read_qwen_images(tmp_path, 16, 2, 2) == QwenImages(cell=32)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"patch_size": 14}, "patch_size is 14, but must be 16"),
        ({"patch_size": 16, "merge_size": 4}, "merge_size is 4, but must be 2"),
        ({"patch_size": 16, "temporal_patch_size": 1}, "temporal_patch_size is 1"),
        ({"patch_size": 16, "do_resize": False}, "do_resize is false"),
        ({"patch_size": 16, "size": {"shortest_edge": 9, "longest_edge": 8}}, "at most longest"),
        ({"patch_size": 16, "size": {"longest_edge": -1}}, "longest_edge is -1"),
    ],
)
def test_what_the_tower_cannot_take_is_named(tmp_path, settings, problem):
    with pytest.raises(CheckpointError, match=problem):
        read_qwen_images(written(tmp_path, **settings), 16, 2, 2)


def test_a_strip_is_refused():
    with pytest.raises(ImageError, match="over 200 times the other; crop it first"):
        QwenImages(cell=32).size(2001, 10)


def test_larger_images_are_made_smaller_and_others_left_alone():
    whole = QwenImages(cell=32)
    limited = whole.limited(100)
    assert limited.size(320, 320) == whole.size(320, 320) == (320, 320)
    assert not limited.is_reduced(320, 320)
    height, width = limited.size(4000, 3000)
    assert height * width <= 100 * 1024 < whole.size(4000, 3000)[0] * 3000
    assert limited.is_reduced(4000, 3000)
    assert whole.limited(None).size(4000, 3000) == (960, 1312)
    assert not whole.limited(20000).is_reduced(5000, 5000)
    with pytest.raises(UsageError, match="`max_image_tokens=0`: give 1 or more"):
        whole.limited(0)


def test_images_of_a_square_have_as_many_tokens_as_cells():
    assert Qwen3VLVision().grid(480, 640).positions == 300
