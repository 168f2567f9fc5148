"""Captions are what transformers' models generate, on tiny random checkpoints."""

import json

import pytest
import torch
from PIL import Image

from mmspec.chat.engine import load
from mmspec.chat.plugins import load_captioner
from mmspec.ground.errors import BackendError, CheckpointError, UsageError
from mmspec.prompt.images import picture_from
from mmspec_torch import captioner
from mmspec_torch.captioner import TransformersCaptioner

SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
QUESTION = ["What", "does", "the", "image", "describe", "?"]
WORDS = [*SPECIAL.values(), "<image>", *"abcdefghij", *QUESTION]
IMAGE = WORDS.index("<image>")
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
VISION = SIZES | {"num_hidden_layers": 2, "image_size": 16, "patch_size": 8}
TEXT = IDS | {"vocab_size": len(WORDS), "max_position_embeddings": 1030, "dropout": 0.0}


def tokenizer():
    """Words apart, as in `WORDS`."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {word: number for number, word in enumerate(WORDS)}
    words, apart = Tokenizer(models.WordLevel(ids, unk_token="<unk>")), pre_tokenizers
    words.pre_tokenizer = apart.Sequence([apart.WhitespaceSplit(), apart.Punctuation()])
    extra = {"image_token": "<image>"}
    return PreTrainedTokenizerFast(tokenizer_object=words, **SPECIAL, extra_special_tokens=extra)


def blip(path):
    import transformers as hf

    text = SIZES | IDS | {"vocab_size": len(WORDS), "num_hidden_layers": 2, "sep_token_id": 2}
    widths = {"projection_dim": 16, "image_text_hidden_size": 16}
    text |= {"encoder_hidden_size": 16}
    config = hf.BlipConfig(text_config=text, vision_config=VISION, **widths)
    hf.BlipForConditionalGeneration(config).save_pretrained(path)
    images = hf.BlipImageProcessor(size={"height": 16, "width": 16})
    hf.BlipProcessor(images, tokenizer()).save_pretrained(path)


def blip_2(path):
    import transformers as hf

    text = {"model_type": "opt", "hidden_size": 16, "word_embed_proj_dim": 16, "ffn_dim": 32}
    config = hf.Blip2Config(
        vision_config=VISION,
        qformer_config=SIZES | {"num_hidden_layers": 2, "encoder_hidden_size": 16},
        text_config=TEXT | text | {"num_hidden_layers": 2, "num_attention_heads": 2},
        num_query_tokens=3,
        image_token_index=IMAGE,
        initializer_range=0.5,
    )
    hf.Blip2ForConditionalGeneration(config).save_pretrained(path)
    images = hf.BlipImageProcessor(size={"height": 16, "width": 16})
    hf.Blip2Processor(images, tokenizer(), num_query_tokens=3).save_pretrained(path)


def florence2(path):
    import transformers as hf

    text = TEXT | {"model_type": "bart", "init_std": 0.5, "forced_eos_token_id": None}
    text |= {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "decoder_start_token_id": 2}
    text |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    text |= {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    vision = {"depths": [1] * 4, "embed_dim": [8, 8, 16, 16], "window_size": 2}
    vision |= {"num_heads": [1, 1, 2, 2], "num_groups": [1, 1, 2, 2]}
    vision |= {"projection_dim": 16, "initializer_range": 0.5}
    config = hf.Florence2Config(text_config=text, vision_config=vision, image_token_id=IMAGE, **IDS)
    hf.Florence2ForConditionalGeneration(config).save_pretrained(path)
    sizes = {"size": {"height": 64, "width": 64}, "do_center_crop": False, "image_seq_length": 5}
    hf.Florence2Processor(hf.CLIPImageProcessor(**sizes), tokenizer()).save_pretrained(path)


MAKERS = {"blip": blip, "blip-2": blip_2, "florence2": florence2}
PICTURES = [picture_from(Image.linear_gradient("L").rotate(90 * n)) for n in range(3)]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """A checkpoint of each kind."""
    folder = tmp_path_factory.mktemp("captioners")
    for kind, make in MAKERS.items():
        torch.manual_seed(0)
        make(folder / kind)
    return {kind: folder / kind for kind in MAKERS}


def generated(path, prompt, beams):
    """What transformers' own classes say about the pictures."""
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = AutoModelForImageTextToText.from_pretrained(path).eval()
    processor = AutoProcessor.from_pretrained(path)
    search = {"do_sample": False, "num_beams": beams, "max_new_tokens": 48}
    asked = [processor(images=p.image, text=prompt, return_tensors="pt") for p in PICTURES]
    ids = [model.generate(**each, **search)[0] for each in asked]
    return [" ".join(processor.decode(row, skip_special_tokens=True).split()) for row in ids]


@pytest.mark.parametrize(
    ("kind", "prompt", "beams"),
    [("blip", None, 1), ("blip-2", None, 1), ("florence2", "<CAPTION>", 3)],
)
def test_captions_are_what_transformers_generates(paths, kind, prompt, beams, monkeypatch, capsys):
    """Of Florence-2 with three beams, as in IbED, here of at most 48 tokens."""
    monkeypatch.setitem(captioner.KINDS[kind][1], "max_new_tokens", 48)
    opened = load_captioner(kind, paths[kind], "cpu")
    capsys.readouterr()
    captions = [opened.caption(picture) for picture in PICTURES]
    assert not capsys.readouterr().err
    assert captions == generated(paths[kind], prompt, beams)
    assert any(captions)
    assert kind == "blip" or len(set(captions)) > 1, "it looks at the picture"
    assert beams == 1 or captions != generated(paths[kind], prompt, 1)


def test_a_captioner_computes_on_the_engines_device(paths, pair_paths, monkeypatch):
    names = []
    monkeypatch.setattr(captioner, "find_device", names.append)
    load(*map(str, pair_paths), backend="torch", device="cpu", captioner=str(paths["blip"]))
    load_captioner("blip", paths["blip"], "gpu")  # MLX's name of one
    assert names == ["cpu", "auto"]


def test_a_full_device_in_a_caption_is_an_error_and_no_fault(paths, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.nn.Module, "to", full)
    with pytest.raises(BackendError, match="memory is full"):
        TransformersCaptioner(paths["blip"], "cpu").caption(PICTURES[0])


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_captioner_names_the_package_that_is_missing(paths, without, package):
    without(package)
    with pytest.raises(BackendError, match=f'needs {package}, .* "mmspec\\[train\\]"'):
        load_captioner("blip", paths["blip"], "cpu")


def test_other_kinds_missing_files_and_pickles_are_refused_in_one_line(paths, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "blipp"}))
    with pytest.raises(UsageError, match="nearest: blip"):
        TransformersCaptioner(tmp_path, "cpu")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "blip"}))
    with pytest.raises(CheckpointError, match="is no captioner: ") as caught:
        TransformersCaptioner(tmp_path, "cpu").caption(PICTURES[0])
    assert "\n" not in str(caught.value)
    for file in paths["blip"].iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="is no captioner: "):
        TransformersCaptioner(tmp_path, "cpu").caption(PICTURES[0])
