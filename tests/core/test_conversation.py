import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mmspec.ground.errors import CheckpointError, ImageError, UsageError
from mmspec.prompt.chat_template import ChatTemplate
from mmspec.prompt.chunks import Chunk, answer_ids, render
from mmspec.prompt.conversation import Conversation, Message, Turn
from mmspec.prompt.images import Picture, open_picture, picture_from
from mmspec.prompt.tokenizer import Tokenizer
from support import tiny_tokenizers
from support.chat_templates import STYLES

KINDS = list(tiny_tokenizers.BUILDERS)
PICTURES = [picture_from(Image.new("RGB", (4, 4), (shade, 0, 0))) for shade in range(3)]
RED, DARK, DARKER = PICTURES[2], PICTURES[1], PICTURES[0]

CHATML = (
    "{% for message in messages %}{{ message['role'] + '\n' }}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>"
    "{% else %}{{ part['text'] | trim }}{% endif %}{% endfor %}{{ '</s>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant\n' }}{% endif %}"
)
WITH_BOS = "{{ bos_token }}" + CHATML
TEMPLATES = {
    "llava": ChatTemplate(),
    "chatml": ChatTemplate(CHATML),
    "with-bos": ChatTemplate(WITH_BOS, tokens={"bos_token": "<s>"}),
}


def asked(*parts: str | Picture, answer: tuple[int, ...] | None = None) -> Turn:
    return Turn(Message("user", parts), answer)


def flat(chunks: list[Chunk], image: int) -> list[int]:
    """The whole sequence, an image as one marker: what a processor gets before it expands them."""
    ids: list[int] = []
    for chunk in chunks:
        for part in chunk.parts:
            ids += [image] if isinstance(part, Picture) else part
    return ids


MESSAGES = {
    "question": [("user", RED, "what is in the picture?\nhow many")],
    "system": [("system", "A chat between a user and an assistant."), ("user", RED, "what?")],
    "turns": [
        ("user", DARKER, "what is this?"),
        ("assistant", "a red circle."),
        ("user", DARK, "how many?"),
        ("assistant", "three"),
        ("user", RED, "why"),
    ],
    "image last": [("user", "what is this?", RED)],
    "text between": [("user", "from ", RED, "to", DARK, " is?")],
    "texts": [("user", "one", "two", RED)],
    "image alone": [("user", RED)],
}
for roles in ["au", "uuau", "uaau", "auaauu", "aaau"]:  # who speaks: user or assistant
    names = {"u": "user", "a": "assistant"}
    MESSAGES[roles] = [(names[role], f"words {number}") for number, role in enumerate(roles)]
# The hub's Llama puts a space before text after a special token, which no answer begins with.
COMPARED = [
    (kind, name, talk)
    for kind in KINDS
    for name in TEMPLATES
    for talk in MESSAGES
    if kind != "hub-llama" or name == "llava" or talk in ("question", "system")
]


def talk_of(messages, template: ChatTemplate, tokenizer: Tokenizer) -> Conversation:
    """The conversation of these messages, answers in the tokens that were generated for them."""
    talk, unanswered = Conversation(), []
    for role, *parts in messages:
        if role == "system":
            [talk.system] = parts
        elif role == "user":
            unanswered.append(Message("user", tuple(parts)))
        else:
            *earlier, question = unanswered or [Message("user", ())]
            ids = answer_ids(parts[0], template, tokenizer)
            talk.turns.append(Turn(question, ids, parts[0], tuple(earlier)))
            unanswered = []
    *earlier, question = unanswered
    talk.turns.append(Turn(question, earlier=tuple(earlier)))
    return talk


@pytest.mark.parametrize(("kind", "name", "talk"), COMPARED)
def test_conversations_equal_transformers(tokenizers, references, kind, name, talk):
    """Llava's template moves images to the front, the others leave every part in its place."""
    tokenizer, template, messages = tokenizers[kind], TEMPLATES[name], MESSAGES[talk]
    found = render(talk_of(messages, template, tokenizer), template, tokenizer)
    pictures = [part for chunk in found for part in chunk.parts if isinstance(part, Picture)]
    parts = [part for _, *parts in messages for part in parts]
    assert pictures == [part for part in parts if isinstance(part, Picture)]
    said = [{"role": role, "content": [*map(sent, parts)]} for role, *parts in messages]
    expected = written(references[kind], said, template.source)
    ids = references[kind](expected, add_special_tokens=not expected.startswith("<s>")).input_ids
    assert flat(found, tokenizer.image_token_id) == ids


def sent(part: str | Picture) -> dict[str, str]:
    return {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}


def written(tokenizer, said, source: str, **options) -> str:
    """What transformers writes."""
    return tokenizer.apply_chat_template(
        said, chat_template=source, add_generation_prompt=True, tokenize=False, **options
    )


@pytest.mark.parametrize("style", ["Qwen3", "QwQ", "DeepSeek R1", "SmolLM3", "ChatML"])
@pytest.mark.parametrize("answer", ["<think>\nso\n</think>\n\nIt is two.", "so</think>It is two."])
def test_thoughts_of_earlier_answers_are_shown_as_transformers_has_them(
    tokenizers, references, style, answer
):
    tokenizer, source = tokenizers["byte-level"], STYLES[style].source
    talk = Conversation(None, [Turn(Message("user", ("how many?",)))])
    talk.answer(tokenizer.encode(answer), answer)
    template = ChatTemplate(source)
    assert render(talk, template, tokenizer)[1].parts == (tuple(tokenizer.encode(answer)),)
    talk.add(Message("user", ("sure?",)))
    said = [
        {"role": "user", "content": "how many?"},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "sure?"},
    ]
    expected = written(references["byte-level"], said, source)
    found = shown(render(talk, template, tokenizer), tokenizer)
    assert found.removeprefix("<s>") == expected.removeprefix("<s>")


@pytest.mark.parametrize("thinking", [None, True, False])
@pytest.mark.parametrize("style", ["Qwen3", "SmolLM3"])
def test_thinking_is_on_or_off_as_in_transformers(tokenizers, references, style, thinking):
    tokenizer, source = tokenizers["byte-level"], STYLES[style].source
    talk = Conversation(None, [Turn(Message("user", ("how many?",)))])
    talk.thinking = thinking
    said = [{"role": "user", "content": "how many?"}]
    options = {} if thinking is None else {"enable_thinking": thinking}
    expected = written(references["byte-level"], said, source, **options)
    found = shown(render(talk, ChatTemplate(source), tokenizer), tokenizer)
    assert found.removeprefix("<s>") == expected.removeprefix("<s>")
    if thinking is not None:
        with pytest.raises(UsageError, match="does not read enable_thinking"):
            render(talk, ChatTemplate(), tokenizer)


def ids(chunk: Chunk) -> list[int]:
    return [id for part in chunk.parts if isinstance(part, tuple) for id in part]


def shown(chunks: list[Chunk], tokenizer: Tokenizer) -> str:
    return tokenizer.decode(flat(chunks, tokenizer.image_token_id), skip_special=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize(
    "typed", ["<image>", "a</s>b", "<s> <image>\n</s>", "\ue000 0\ue003\ue002", "{{ messages }}"]
)
def test_what_a_user_types_is_text(tokenizers, kind, name, typed):
    tokenizer = tokenizers[kind]
    for parts, system in [((RED, typed), None), ((RED, "x"), typed), (("x", RED, typed), typed)]:
        chunks = render(Conversation(system, [asked(*parts)]), TEMPLATES[name], tokenizer)
        assert [part for part in chunks[0].parts if isinstance(part, Picture)] == [RED]
        other = asked(*("y" if part == typed else part for part in parts))
        plain = render(Conversation(system and "y", [other]), TEMPLATES[name], tokenizer)
        special = {tokenizer.token_id(each) for each in ("<s>", "</s>", "<image>")}
        counted = [sum(id in special for id in ids(each[0])) for each in (chunks, plain)]
        assert counted[0] == counted[1]
        assert typed in shown(chunks, tokenizer)


def test_a_template_that_loses_images_or_answers_is_named(tokenizers):
    tokenizer = tokenizers["llama"]
    silent = ChatTemplate("{{ messages[-1].content[-1].text }}", "silent.jinja")
    with pytest.raises(CheckpointError, match=r"silent\.jinja shows 0 of 1 images"):
        render(Conversation(None, [asked(RED, "x")]), silent, tokenizer)
    with pytest.raises(CheckpointError, match=r"silent\.jinja drops or repeats answers"):
        render(Conversation(None, [asked("x", answer=(5,)), asked("y")]), silent, tokenizer)


WORDS = st.text(alphabet="ab <>/simge\né", max_size=12)
PARTS = st.lists(WORDS | st.sampled_from(PICTURES), min_size=1, max_size=4).map(tuple)
TALKS = st.lists(
    st.tuples(PARTS, st.lists(st.integers(4, 300), max_size=5).map(tuple)), min_size=1, max_size=4
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(talk=TALKS, system=st.none() | WORDS, name=st.sampled_from(sorted(TEMPLATES)))
def test_earlier_chunks_never_change(tokenizers, kind, talk, system, name):
    tokenizer, template = tokenizers[kind], TEMPLATES[name]
    growing = Conversation(system)
    before: list[Chunk] = []
    for parts, answer in talk:
        growing.add(Message("user", parts))
        opened = render(growing, template, tokenizer)
        assert opened[:-1] == before
        growing.answer(answer, "")
        answered = render(growing, template, tokenizer)
        assert answered[:-1] == opened
        assert ids(answered[-1]) == list(answer)
        before = answered


ODD = os.fsdecode(b"caf\xe9 %41.png") if sys.platform == "linux" else "odd.png"
"""A name that is no UTF-8, where files may have one."""


@pytest.mark.parametrize("name", ["red.png", ODD], ids=ascii)
def test_saved_and_opened_again(tmp_path, monkeypatch, name):
    file = Path(tmp_path, name)
    Image.new("RGB", (5, 4), "red").save(file)
    monkeypatch.chdir(tmp_path)
    talk = Conversation("Be brief.")
    talk.add(Message("user", ("look: ", open_picture(name), " é")))
    talk.answer((7, 8), "seven\x1b eight")
    talk.add(Message("user", ("why?",)))
    saved = talk.to_json().encode().decode()
    monkeypatch.chdir("/")
    assert (loaded := Conversation.from_json(saved)) == talk
    assert loaded.turns[0].question.pictures[0].name == str(file)
    Image.new("RGB", (5, 4), "blue").save(file)
    with pytest.raises(ImageError, match=r"\.png'?: the image has changed"):
        Conversation.from_json(saved)
    file.unlink()
    with pytest.raises(ImageError, match=r"\.png'?: cannot be read"):
        Conversation.from_json(saved)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[" * 100_000,
        '{"system": 5, "turns": []}',
        '{"system": null, "turns": [{"question": [5], "answer": null, "answer_text": ""}]}',
        '{"system": null, "turns": [{"question": [], "answer": null, "answer_text": ""},'
        ' {"question": [], "answer": null, "answer_text": ""}]}',
        '{"system": null, "turns": [{"question": [], "answer": [], "answer_text": "a cat"}]}',
    ],
)
def test_other_text_is_no_conversation(text):
    with pytest.raises(UsageError, match="not a saved conversation"):
        Conversation.from_json(text)


def test_questions_and_answers_take_turns():
    talk = Conversation()
    with pytest.raises(UsageError, match="no question to answer"):
        talk.answer((), "")
    talk.add(Message("user", ("one",)))
    with pytest.raises(UsageError, match="no answer yet"):
        talk.add(Message("user", ("two",)))


def test_no_turn_is_rendered_after_as_many_tokens_as_asked_for(tokenizers):
    tokenizer = tokenizers[KINDS[0]]
    turns = [asked("one", answer=(5, 6, 7)) for _ in range(20)]
    talk = Conversation(None, [*turns, asked("two")])
    whole = render(talk, ChatTemplate(), tokenizer)
    most = sum(len(ids(chunk)) for chunk in whole[:10])
    assert render(talk, ChatTemplate(), tokenizer, most=most) == whole[:12]
