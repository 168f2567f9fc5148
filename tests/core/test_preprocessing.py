"""Pixel values: those of the CLIP image processor, and what a file of options changes."""

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from test_images import noise
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil

from mmspec.families.clip_images import ClipImages, read_clip_images
from support.factory_layouts import write_json


def reference(processor, image: Image.Image) -> np.ndarray:
    return processor(image, return_tensors="np")["pixel_values"][0]


@settings(max_examples=40)
@given(
    width=st.integers(1, 120),
    height=st.integers(1, 120),
    edge=st.integers(1, 60),
    crop_height=st.integers(1, 70),
    crop_width=st.integers(1, 70),
)
@example(337, 500, 56, 56, 56)
@example(10_000, 3, 30, 30, 30)
@example(3, 10_000, 30, 30, 30)
def test_any_crop_and_padding_equals_the_processor(width, height, edge, crop_height, crop_width):
    processor = CLIPImageProcessorPil(
        size={"shortest_edge": edge}, crop_size={"height": crop_height, "width": crop_width}
    )
    recipe = ClipImages(resize=edge, crop=(crop_height, crop_width))
    image = noise(width, height)
    found = recipe.pixels(image)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, reference(processor, image))


def test_old_and_new_layouts_mean_the_same(tmp_path):
    crop = {"height": 42, "width": 42}
    processor = CLIPImageProcessorPil(size={"shortest_edge": 42}, crop_size=crop)
    processor.save_pretrained(tmp_path)
    assert read_clip_images(tmp_path, 42) == ClipImages(42, (42, 42))
    block = json.loads((tmp_path / "preprocessor_config.json").read_text())
    (tmp_path / "preprocessor_config.json").unlink()
    write_json(tmp_path / "processor_config.json", {"image_processor": block, "patch_size": 14})
    assert read_clip_images(tmp_path, 42) == ClipImages(42, (42, 42))
    write_json(tmp_path / "processor_config.json", {"processor_class": "LlavaProcessor"})
    write_json(tmp_path / "preprocessor_config.json", {"size": 42, "crop_size": 42, "resample": 3})
    assert read_clip_images(tmp_path, 42) == ClipImages(42, (42, 42))


@pytest.mark.parametrize(
    "options",
    [
        {"size": {"height": 28, "width": 28}, "do_center_crop": False},
        {"image_mean": [0.5] * 3, "image_std": [0.25, 0.5, 0.75]},
        {"resample": 2, "rescale_factor": 0.5},
        {"do_normalize": False},
        {"do_rescale": False},
        {"do_resize": False},
        {"do_pad": True},
    ],
)
def test_options_of_the_file_are_followed(tmp_path, options):
    options = {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28}} | options
    processor = LlavaImageProcessorPil(**options)
    write_json(tmp_path / "preprocessor_config.json", processor.to_dict())
    recipe = read_clip_images(tmp_path, 28)
    for image in (noise(50, 37), noise(20, 45)):
        np.testing.assert_array_equal(recipe.pixels(image), reference(processor, image))
