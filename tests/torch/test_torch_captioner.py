"""Captions by transformers' models, on a tiny random BLIP."""

import json

import pytest
from PIL import Image

from mmspec.chat.plugins import load_captioner
from mmspec.ground.errors import BackendError, CheckpointError, UsageError
from mmspec.prompt.images import picture_from
from mmspec_torch.captioner import TransformersCaptioner

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[DEC]", "[MASK]", *"abcdefghij"]


@pytest.fixture(scope="module")
def blip_path(tmp_path_factory):
    import torch
    from transformers import (
        BertTokenizerFast,
        BlipConfig,
        BlipForConditionalGeneration,
        BlipImageProcessor,
        BlipProcessor,
    )

    path = tmp_path_factory.mktemp("blip")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    ids = {"bos_token_id": 4, "eos_token_id": 3, "sep_token_id": 3, "pad_token_id": 0}
    text = {"vocab_size": len(WORDS), "num_hidden_layers": 2, "encoder_hidden_size": 16}
    config = BlipConfig(
        text_config=sizes | text | ids,
        vision_config=sizes | {"num_hidden_layers": 2, "image_size": 16, "patch_size": 8},
        projection_dim=16,
        image_text_hidden_size=16,
    )
    torch.manual_seed(0)
    BlipForConditionalGeneration(config).save_pretrained(path)
    vocabulary = path / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS))
    tokenizer = BertTokenizerFast(str(vocabulary))
    processor = BlipImageProcessor(size={"height": 16, "width": 16})
    BlipProcessor(processor, tokenizer).save_pretrained(path)
    return path


@pytest.fixture
def picture():
    return picture_from(Image.linear_gradient("L").resize((20, 30)))


def test_the_caption_is_what_transformers_generates(blip_path, picture):
    from transformers import BlipForConditionalGeneration, BlipProcessor

    processor = BlipProcessor.from_pretrained(blip_path)
    model = BlipForConditionalGeneration.from_pretrained(blip_path).eval()
    given = processor(images=picture.image, return_tensors="pt")
    ids = model.generate(**given, do_sample=False, num_beams=1, max_new_tokens=48)
    expected = processor.decode(ids[0], skip_special_tokens=True)
    caption = TransformersCaptioner(blip_path).caption(picture)
    assert caption == " ".join(expected.split()) != ""
    assert "\n" not in caption


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_captioner_names_the_package_that_is_missing(blip_path, without, package):
    without(package)
    with pytest.raises(BackendError, match=f'needs {package}, .* "mmspec\\[train\\]"'):
        load_captioner("blip", blip_path)


def test_another_kind_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "blipp"}))
    with pytest.raises(UsageError, match="nearest: blip"):
        TransformersCaptioner(tmp_path)


def test_missing_files_are_named_in_one_line(tmp_path, picture):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "blip"}))
    with pytest.raises(CheckpointError, match="is no captioner: ") as caught:
        TransformersCaptioner(tmp_path).caption(picture)
    assert "\n" not in str(caught.value)


def test_pickled_weights_are_never_read(blip_path, tmp_path, picture):
    import torch

    for file in blip_path.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="is no captioner: "):
        TransformersCaptioner(tmp_path).caption(picture)
