"""BLIP-2 and Florence-2 as captioners: tiny random checkpoints, captions decoded by forwards."""

from itertools import islice, takewhile

import pytest
import torch
from PIL import Image

from mmspec.chat.plugins import load_captioner
from mmspec.prompt.images import picture_from
from mmspec_torch import captioner

QUESTION = ["What", "does", "the", "image", "describe", "?"]
SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
WORDS = [*SPECIAL.values(), "<image>", *"abcdefghij", *QUESTION]
IMAGE = WORDS.index("<image>")
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TEXT = IDS | {"vocab_size": len(WORDS), "max_position_embeddings": 1030, "dropout": 0.0}


def tokenizer():
    """Words apart, as in `WORDS`."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {word: number for number, word in enumerate(WORDS)}
    words = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    extra = {"image_token": "<image>"}
    return PreTrainedTokenizerFast(tokenizer_object=words, **SPECIAL, extra_special_tokens=extra)


def blip_2(path):
    from transformers import (
        Blip2Config,
        Blip2ForConditionalGeneration,
        Blip2Processor,
        BlipImageProcessor,
    )

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    text = {"model_type": "opt", "hidden_size": 16, "word_embed_proj_dim": 16, "ffn_dim": 32}
    config = Blip2Config(
        vision_config=sizes | {"num_hidden_layers": 2, "image_size": 16, "patch_size": 8},
        qformer_config=sizes | {"num_hidden_layers": 2, "encoder_hidden_size": 16},
        text_config=TEXT | text | {"num_hidden_layers": 2, "num_attention_heads": 2},
        num_query_tokens=3,
        image_token_index=IMAGE,
        initializer_range=0.5,
    )
    Blip2ForConditionalGeneration(config).save_pretrained(path)
    images = BlipImageProcessor(size={"height": 16, "width": 16})
    Blip2Processor(images, tokenizer(), num_query_tokens=3).save_pretrained(path)


def florence2(path):
    from transformers import (
        CLIPImageProcessor,
        Florence2Config,
        Florence2ForConditionalGeneration,
        Florence2Processor,
    )

    layers = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    sizes = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "decoder_start_token_id": 2}
    drawn = {"init_std": 0.5, "forced_eos_token_id": None}
    config = Florence2Config(
        text_config=TEXT | layers | heads | sizes | {"model_type": "bart"} | drawn,
        vision_config={
            "depths": [1, 1, 1, 1],
            "embed_dim": [8, 8, 16, 16],
            "num_heads": [1, 1, 2, 2],
            "num_groups": [1, 1, 2, 2],
            "window_size": 2,
            "projection_dim": 16,
            "initializer_range": 0.5,
        },
        image_token_id=IMAGE,
        **IDS,
    )
    Florence2ForConditionalGeneration(config).save_pretrained(path)
    images = CLIPImageProcessor(
        size={"height": 64, "width": 64}, do_center_crop=False, image_seq_length=5
    )
    Florence2Processor(images, tokenizer()).save_pretrained(path)


def steps_of_blip_2(model, pixels):
    """The next tokens after what stands for an image and <s>."""
    given = [IMAGE] * 3 + [1]
    while True:
        ids = torch.tensor([given])
        given.append(int(model(pixels, ids).logits[0, -1].argmax()))
        yield given[-1]


def steps_of_florence2(model, pixels):
    """The decoder's next tokens, the encoder being asked what the image describes."""
    words = [WORDS.index(word) for word in QUESTION]
    asked, said = torch.tensor([[IMAGE] * 5 + [1, *words, 2]]), [2]
    while True:
        ids = torch.tensor([said])
        logits = model(input_ids=asked, pixel_values=pixels, decoder_input_ids=ids).logits
        said.append(int(logits[0, -1].argmax()))
        yield said[-1]


MAKERS = {"blip-2": (blip_2, steps_of_blip_2), "florence2": (florence2, steps_of_florence2)}
PICTURES = [picture_from(Image.linear_gradient("L").rotate(90 * n)) for n in range(3)]
LONGEST = 48


@torch.no_grad()
def decoded(path, steps, picture):
    """A caption by whole forwards, one for every token."""
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = AutoModelForImageTextToText.from_pretrained(path).eval()
    processor = AutoProcessor.from_pretrained(path)
    pixels = processor.image_processor(picture.image, return_tensors="pt").pixel_values
    said = list(takewhile(lambda token: token != 2, islice(steps(model, pixels), LONGEST)))
    return processor.tokenizer.decode(said, skip_special_tokens=True)


def captions(kind, path):
    """Those of a random checkpoint that is made in `path`."""
    torch.manual_seed(0)
    MAKERS[kind][0](path)
    return [load_captioner(kind, path).caption(picture) for picture in PICTURES]


@pytest.mark.parametrize("kind", MAKERS)
def test_the_caption_is_the_models_greedy_answer(tmp_path, kind, monkeypatch):
    greedy = captioner.KINDS[kind]._replace(beams=1, tokens=LONGEST)
    monkeypatch.setitem(captioner.KINDS, kind, greedy)
    found = captions(kind, tmp_path)
    assert found == [decoded(tmp_path, MAKERS[kind][1], picture) for picture in PICTURES]
    assert len(set(found)) > 1, "it looks at the picture"


def test_florence_searches_with_three_beams_as_in_ibed(tmp_path):
    from transformers import AutoProcessor, Florence2ForConditionalGeneration

    found = captions("florence2", tmp_path)
    model = Florence2ForConditionalGeneration.from_pretrained(tmp_path).eval()
    processor = AutoProcessor.from_pretrained(tmp_path)
    pictures = [picture.image for picture in PICTURES]
    asked = [processor(images=p, text="<CAPTION>", return_tensors="pt") for p in pictures]

    def searched(beams):
        search = {"do_sample": False, "num_beams": beams, "max_new_tokens": 1024}
        ids = [model.generate(**each, **search)[0] for each in asked]
        return [" ".join(processor.decode(row, skip_special_tokens=True).split()) for row in ids]

    assert found == searched(3)
    assert found != searched(1)
