"""MMSpec's photographs, charts, pages and questions, as transformers' processors see them."""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from benchmark_files import ANSWERED, MODELS, answers_file, benchmark, directory, lines
from PIL import Image
from transformers import AutoTokenizer, LlavaProcessor
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from mmspec.checkpoints.config import read_config
from mmspec.prompt.chat_template import ChatTemplate, load_template
from mmspec.prompt.chunks import answer_ids, render
from mmspec.prompt.conversation import Conversation, Message
from mmspec.prompt.images import Picture, open_picture
from mmspec.prompt.tokenizer import Tokenizer
from support.qwen_oracle import patches, processor

pytestmark = pytest.mark.slow


class Sample(NamedTuple):
    """One conversation."""

    name: str
    image: Path
    questions: list[str]
    answers: list[str]


def samples(model: str) -> Iterator[Sample]:
    """MMSpec's conversations, read without the suite; a Qwen without answers gets a Qwen's."""
    file = benchmark() / "test/mmspec.jsonl"
    answers = lines(answers_file(model if model in ANSWERED else ANSWERED[-1]))
    for asked, told in zip(lines(file), answers, strict=True):
        assert asked["id"] == told["question_id"]
        image = file.parent / "images" / asked["image"]
        yield Sample(asked["id"], image, asked["turns"], told["choices"][0]["turns"])


class Ours:
    """This project's reading of a model's directory."""

    def __init__(self, files: Path) -> None:
        self.config = read_config(files)
        assert self.config.vision
        self.vision = self.config.vision
        self.images = self.vision.preprocessing(files)
        self.template: ChatTemplate = load_template(files)
        self.tokenizer = Tokenizer.read(files, self.config.family.image_tokens)

    def prompt(self, sample: Sample, picture: Picture, turns: int) -> list[int]:
        """The ids of the conversation up to the question of a turn, visual positions included."""
        conversation = Conversation()
        for number in range(turns):
            if number:
                text = sample.answers[number - 1]
                conversation.answer(answer_ids(text, self.template, self.tokenizer), text)
            first = () if number else (picture,)
            conversation.add(Message("user", (*first, sample.questions[number])))
        positions = self.vision.grid(*self.images.size(*picture.image.size)).positions
        chunks = render(conversation, self.template, self.tokenizer)
        parts = chain.from_iterable(chunk.parts for chunk in chunks)
        images = [self.config.image_token_id] * positions
        return [*chain.from_iterable(images if isinstance(p, Picture) else p for p in parts)]


def oracle(files: Path) -> Any:
    """Transformers' processor of a model's directory."""
    kind = json.loads((files / "config.json").read_text())["model_type"]
    template = (files / "chat_template.jinja").read_text()
    if kind != "llava":
        return processor(files, kind, template)
    images = CLIPImageProcessorPil.from_pretrained(files)
    tokenizer = AutoTokenizer.from_pretrained(files)
    return LlavaProcessor(images, tokenizer, 14, "default", template, "<image>", 1)


def messages(sample: Sample, turns: int) -> list[dict[str, Any]]:
    """The conversation up to the question of a turn, as transformers' templates take it."""
    said = []
    for number in range(turns):
        if number:
            said.append({"role": "assistant", "content": text_of(sample.answers[number - 1])})
        image = [] if number else [{"type": "image"}]
        said.append({"role": "user", "content": [*image, *text_of(sample.questions[number])]})
    return said


def text_of(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


@pytest.mark.parametrize("model", MODELS)
def test_pixels_and_ids_are_the_processors(model):
    files = directory(model)
    ours, theirs = Ours(files), oracle(files)
    asked = 0
    for sample in samples(model):
        picture, image = open_picture(sample.image), Image.open(sample.image).convert("RGB")
        for turns in range(1, len(sample.questions) + 1):
            text = theirs.apply_chat_template(messages(sample, turns), add_generation_prompt=True)
            seen = theirs(images=[image], text=text, return_tensors="np")
            place = f"{sample.name}, turn {turns}"
            assert ours.prompt(sample, picture, turns) == seen["input_ids"][0].tolist(), place
            asked += 1
        pixels = ours.images.pixels(picture.image)
        if model.startswith("qwen"):
            pixels = patches(pixels, ours.vision)
        np.testing.assert_array_equal(pixels, np.squeeze(seen["pixel_values"]), sample.name)
    assert asked == 723
