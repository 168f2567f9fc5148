"""Files that no backend reads, and how a process uses them."""

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from PIL import Image

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.conversation import Conversation, Message
from mmspec.prompt.film import open_clip
from mmspec.prompt.images import open_picture, picture_from
from mmspec.prompt.tokenizer import Tokenizer
from mmspec_cli.chat_commands import files
from mmspec_cli.terminal import conversation_store
from support import factory_layouts, scripted_engine
from support.films import film

TEXT = "what is in <image> </s> picture? über\n"
OPTIONS = Options(max_new_tokens=3, exact="off", gamma=2)


def picture() -> Image.Image:
    """A small picture with some detail."""
    pixels = np.random.default_rng(0).integers(0, 255, (6, 9, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((36, 24))


IMAGES = ("a.png", "a.jpg", "a.webp", "a.gif", "a.bmp", "a.ppm", "a.tif", "a.avif", "a.tga")


def make_images(folder: Path) -> None:
    """The same picture in every format."""
    for name in IMAGES:
        picture().save(folder / name)


def use_picture(file: Path, _: str) -> None:
    """Open an image."""
    open_picture(file)


CODECS = {
    "h264.mp4": "libx264",
    "png.mov": "",
    "vp9.webm": "libvpx-vp9",
    "h265.mkv": "libx265",
    "mpeg4.avi": "mpeg4",
}
"""Films by name, and how their frames are coded."""


def make_clips(folder: Path) -> None:
    """The same film in every container."""
    for name, codec in CODECS.items():
        film(folder / name, 12, codec=codec, gop=4)


def use_clip(file: Path, _: str) -> None:
    """Open all of its frames, and few."""
    open_clip(file, fps=1000, max_frames=768)
    open_clip(file, max_frames=3)


def make_conversation(folder: Path) -> None:
    """Two questions with images, one of a file, and a tokenizer."""
    factory_layouts.write_tokenizer(folder)
    picture().save(folder / "a.png")
    conversation = Conversation("be brief")
    for image in (open_picture(folder / "a.png"), picture_from(picture())):
        conversation.add(Message("user", (image, "what is this?")))
        conversation.answer(Tokenizer.read(folder).encode("a cat"), "a cat")
    values = json.loads(conversation.to_json()) | {"model": "tiny"}
    (folder / "kept.json").write_text(json.dumps(values))


@cache
def _scripted(folder: Path) -> Engine:
    return scripted_engine.scripted_engine(folder)


def use_conversation(file: Path, _: str) -> None:
    """List it, read it, go on with it."""
    list(conversation_store.ConversationStore(file.parent).files())
    file = file.parent / "kept.json"
    chat, nothing = _scripted(file.parent.parent / "source").chat(OPTIONS), lambda *_: False
    dialogue = SimpleNamespace(
        resume=lambda conversation, _: bool(chat.resume(conversation)),
        screen=SimpleNamespace(note=nothing),
        notice=nothing,
    )
    files.go_on(dialogue, file, str(file))


TOKENIZERS = ("llama", "byte-level", "hub-llama")


def make_tokenizers(folder: Path) -> None:
    """A tokenizer of each kind, and a template."""
    from support import tiny_tokenizers  # imports transformers, which takes seconds

    for kind, build in tiny_tokenizers.BUILDERS.items():
        (folder / kind).mkdir()
        build(folder / kind)
        roles = {"bos_token": {"content": "<s>", "special": True}, "eos_token": "</s>"}
        (folder / kind / "special_tokens_map.json").write_text(json.dumps(roles))


SENTENCEPIECE = ("tokenizer.model",) * 3 + ("tokenizer_config.json",)


def make_sentencepiece(folder: Path) -> None:
    """A tokenizer of the format before tokenizer.json, byte tokens among its pieces."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([factory_layouts.CORPUS] * 3),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=320,
        model_type="bpe",
        byte_fallback=True,
        minloglevel=2,
    )
    roles = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "add_bos_token": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(roles))


def use_tokenizer(file: Path, _: str) -> None:
    """Encode and decode text in every way."""
    tokenizer = Tokenizer.read(file.parent)
    template = load_template(file.parent)
    ids = tokenizer.encode(TEXT)
    tokenizer.encode_parts(tokenizer.split_special(TEXT), continues=True)
    tokenizer.decode(ids)
    stream = tokenizer.stream()
    stream.push(ids)
    stream.finish()
    _ = tokenizer.newline_id, tokenizer.special_texts
    template.render([("user", [{"type": "image"}, {"type": "text", "text": TEXT}])])


def tokenizer_files() -> tuple[str, ...]:
    """The files of every kind of tokenizer, tokenizer.json more often than the others."""
    names = ("tokenizer.json",) * 3 + ("tokenizer_config.json", "special_tokens_map.json")
    return tuple(f"{kind}/{name}" for kind in TOKENIZERS for name in names)
