"""The bundled pair for other programs: the hub's tensor names, one prompt in the same tokens."""

import pytest
from transformers import AutoProcessor, AutoTokenizer

from mmspec.checkpoints.cards import load_cards, present
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.loading_plan import read_tensors
from mmspec.checkpoints.manifest import canonical, hub_name
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.chunks import answer_ids, render
from mmspec.prompt.conversation import Conversation, interleave
from mmspec.prompt.images import Picture, open_picture
from mmspec.prompt.tokenizer import Tokenizer
from support.bundled import SAMPLES

POSITIONS = 144
FIRST = "What is in the picture?"
ANSWER = "A red circle and a blue square."
ANSWERED = ("user", ("shapes.png",), FIRST), ("assistant", (), ANSWER)
TALKS = {
    "text": [("user", (), FIRST)],
    "two pictures": [("user", ("before.png", "after.png"), FIRST)],
    "two turns": [*ANSWERED, ("user", (), "Is it a word?")],
}


@pytest.fixture(scope="module", params=["mini", "mini-draft"])
def directory(request):
    return SAMPLES.parent / request.param


def ours(directory, talk):
    """The ids of mmspec's prompt, an image's token at every position of an image."""
    tokenizer, template = Tokenizer.read(directory), load_template(directory)
    conversation = Conversation()
    for role, pictures, text in talk:
        if role == "user":
            conversation.add(interleave(text, [open_picture(SAMPLES / name) for name in pictures]))
        else:
            conversation.answer(answer_ids(text, template, tokenizer), text)
    parts = [part for chunk in render(conversation, template, tokenizer) for part in chunk.parts]
    image = (tokenizer.image_token_id,) * POSITIONS
    return [id for part in parts for id in (image if isinstance(part, Picture) else part)]


def messages(talk):
    """The conversation as transformers takes it."""
    said = []
    for role, pictures, text in talk:
        images = [{"type": "image", "path": str(SAMPLES / name)} for name in pictures]
        said.append({"role": role, "content": [*images, {"type": "text", "text": text}]})
    return said


@pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS)
def test_every_way_to_a_prompt_gives_the_same_tokens(directory, talk):
    """A tokenizer writes one token for an image, a processor all of its positions."""
    expected = ours(directory, talk)
    assert expected.count(0) == 1
    asked, options = messages(talk), {"add_generation_prompt": True, "tokenize": True}
    tokenizer = AutoTokenizer.from_pretrained(directory)
    bare = tokenizer.apply_chat_template(asked, **options)["input_ids"]
    image = tokenizer.convert_tokens_to_ids("<image>")
    assert [i for id in bare for i in [id] * (POSITIONS if id == image else 1)] == expected
    processor = AutoProcessor.from_pretrained(directory)
    whole = processor.apply_chat_template(asked, return_dict=True, **options)
    assert whole["input_ids"][0] == expected
    rendered = processor.apply_chat_template(asked, add_generation_prompt=True)
    files = [SAMPLES / name for _, names, _ in talk for name in names]
    pictures = [open_picture(file).image for file in files] or None
    assert processor(text=[rendered], images=pictures)["input_ids"][0] == expected


def test_tensors_have_the_names_that_other_engines_read(directory):
    if present(load_cards()[directory.name], "torch") is None:
        pytest.skip(f"the weights of {directory.name} are not in the tree")
    config = read_config(directory)
    for name in read_tensors(directory):
        assert hub_name(canonical(name, config), config) == name
