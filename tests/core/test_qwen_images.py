"""Qwen's pixel values, prompts and windows: those of transformers' own processor and tower."""

import json

import numpy as np
import pytest
from test_images import noise
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from mmspec.families.processor_file import CLIP_MEAN, CLIP_STD
from mmspec.families.qwen2_5_vl import Qwen25VLVision
from mmspec.families.qwen3_vl import Qwen3VLVision
from mmspec.families.qwen_vision import IMAGE_TOKENS
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.chunks import render
from mmspec.prompt.conversation import Conversation, interleaved
from mmspec.prompt.images import picture_from
from mmspec.prompt.tokenizer import Tokenizer
from support.factory_qwen import IMAGE_ID, write_tokenizer
from support.qwen_oracle import patches, processor

DRAWS = np.random.default_rng(0)
SIZES = [(int(width), int(height)) for width, height in DRAWS.integers(3, 400, (170, 2))]
SIZES += [(int(width), int(height)) for width, height in DRAWS.integers(400, 1400, (20, 2))]
SIZES += [(1, 1), (1, 200), (200, 1), (31, 33), (16, 16), (48, 47), (2000, 10), (10, 2000)]
SIZES += [(640, 480), (1, 2), (96, 96)]


TOWERS = {"qwen3_vl": Qwen3VLVision(), "qwen2_5_vl": Qwen25VLVision()}
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
    tokenizer, template = Tokenizer.read(tmp_path, IMAGE_TOKENS), load_template(tmp_path)
    assert len(SIZES) >= 200
    for width, height in SIZES[::every]:
        image = noise(width, height)
        content = [{"type": "image"}, {"type": "text", "text": "What is it?"}]
        messages = [{"role": "user", "content": content}]
        text = theirs.apply_chat_template(messages, add_generation_prompt=True)
        expected = theirs(images=[image], text=text, return_tensors="np")
        pixels = ours.pixels(image)
        assert pixels.shape[1:] == ours.size(width, height)
        np.testing.assert_array_equal(patches(pixels, tower), expected["pixel_values"])
        grid = tower.grid(*ours.size(width, height))
        conversation = Conversation()
        conversation.add(interleaved("What is it?", [picture_from(image)]))
        parts = [
            part for chunk in render(conversation, template, tokenizer) for part in chunk.parts
        ]
        runs = (part if isinstance(part, tuple) else [IMAGE_ID] * grid.positions for part in parts)
        assert [token for run in runs for token in run] == expected["input_ids"][0].tolist()


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
    ours = Qwen3VLVision().preprocessing(tmp_path)
    processor = Qwen2VLImageProcessorPil.from_pretrained(tmp_path)
    image = noise(333, 251)
    theirs = processor(image, return_tensors="np")["pixel_values"]
    np.testing.assert_array_equal(patches(ours.pixels(image), Qwen3VLVision()), theirs)
