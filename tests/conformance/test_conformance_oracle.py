"""Every backend says what transformers' own generate says on the same checkpoint."""

import pytest
import torch
from transformers import AutoProcessor, LlavaForConditionalGeneration

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.prompt.conversation import render
from mmspec.prompt.images import Picture
from support import factory
from support.conformance_cases import picture

DATASETS = {
    "hub": {},
    "transformers": {"layout": "transformers", "sharded": True},
    "grouped": {"key_value_heads": 2},
    "one key head": {"key_value_heads": 1, "heads": 2},
    "tied": {"tied": True, "layout": "transformers"},
    "padded": {"vocab_size": 384},
    "small patches": {"image_size": 48, "patch_size": 8},
    "large patches": {"image_size": 42, "patch_size": 14},
    "last layer": {"feature_layer": -1},
    "first layer": {"feature_layer": 1},
    "class token": {"select_strategy": "full"},
    "deeper": {"layers": 3, "hidden_size": 128, "heads": 4},
}
SEEING = ["hub", "small patches", "large patches", "class token"]
"""Those whose prompts differ: the rest changes the decoder alone."""
ALL_LAYOUTS = [
    name if name in SEEING else pytest.param(name, marks=pytest.mark.slow) for name in DATASETS
]
BUDGET = 20
TEXTS = ("What is in the two pictures?", "And which one is larger?")


@pytest.fixture(scope="session", params=DATASETS)
def checkpoint(request, checkpoints):
    """One checkpoint per layout, and transformers' model of it."""
    folder = checkpoints / f"layout {request.param}"
    path = factory.tiny_llava(folder, seed=3, **DATASETS[request.param])
    return path, LlavaForConditionalGeneration.from_pretrained(path, dtype=torch.float32).eval()


def generated(model, ids, pictures, preprocessing):
    """What generate says after `ids`, its pixel values ours (held to the processor's elsewhere)."""
    values = [torch.tensor(preprocessing.pixels(each.image)) for each in pictures]
    inputs = torch.tensor([ids])
    said = model.generate(
        input_ids=inputs,
        attention_mask=torch.ones_like(inputs),
        pixel_values=torch.stack(values) if values else None,
        do_sample=False,
        max_new_tokens=BUDGET,
        pad_token_id=0,
    )
    return said[0, len(ids) :].tolist()


def flat(chat, positions):
    """The ids and pictures of a whole conversation."""
    engine = chat.models
    chunks = render(chat.conversation, engine.target.template, engine.target.tokenizer)
    ids, pictures = [], []
    for part in (part for chunk in chunks for part in chunk.parts):
        if isinstance(part, Picture):
            pictures.append(part)
            ids += [factory.IMAGE_TOKEN_ID] * positions
        else:
            ids += part
    return ids, pictures


def test_two_turns_are_generates_own(checkpoint, backend):
    """With the target as its own draft, half blind, so that some of its tokens are rejected."""
    path, model = checkpoint
    engine = load(str(path), str(path), backend=backend)
    size = engine.target.model.config.vision.image_size
    chat = engine.chat(Options(drafting="MT", gamma=4, max_new_tokens=BUDGET))
    shown = [(picture(1, size), picture(2, size)), (picture(3, size),)]
    for text, pictures in zip(TEXTS, shown, strict=True):
        chat.reply(text, pictures)
        answer = chat.answer.token_ids
        turn = chat.conversation.turns.pop()
        chat.conversation.add(turn.question)
        ids, seen = flat(chat, engine.target.model.config.image_tokens)
        assert answer == generated(model, ids, seen, engine.target.features.preprocessing)
        chat.conversation.answer(turn.answer, turn.answer_text)
    assert len(set(answer)) > 3


@pytest.mark.parametrize("checkpoint", ALL_LAYOUTS, indirect=True, scope="session")
def test_a_first_prompt_is_what_transformers_processor_makes(checkpoint, backend):
    path, _ = checkpoint
    engine = load(str(path), "none", backend=backend)
    size = engine.target.model.config.vision.image_size
    chat = engine.chat(Options(max_new_tokens=1))
    shown = picture(1, size)
    chat.reply(TEXTS[0], [shown])
    chat.conversation.reopen()
    ids, _ = flat(chat, engine.target.model.config.image_tokens)
    processor = AutoProcessor.from_pretrained(path, backend="pil")
    content = [{"type": "image"}, {"type": "text", "text": TEXTS[0]}]
    text = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True
    )
    inputs = processor(images=[shown.image], text=text, return_tensors="np")
    assert ids == inputs["input_ids"][0].tolist()


def test_a_drafted_answer_is_generates_own(pair_paths, backend, engine):
    model = LlavaForConditionalGeneration.from_pretrained(pair_paths[0]).eval()
    chat = engine.chat(Options(drafting="MTCP", gamma=4, max_new_tokens=BUDGET))
    answer = chat.reply(TEXTS[0], (picture(1), picture(2))).token_ids
    chat.conversation.reopen()
    ids, seen = flat(chat, 16)
    assert answer == generated(model, ids, seen, engine.target.features.preprocessing)
