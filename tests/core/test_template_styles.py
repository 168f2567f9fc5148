"""Chat templates in the styles of published models write what transformers writes with them."""

from pathlib import Path

import pytest
from jinja2 import TemplateError
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from mmspec.ground.errors import CheckpointError, UsageError
from mmspec.prompt.chat_template import LLAVA, Content, load_template
from mmspec.prompt.tokenizer_files import special_tokens
from support.chat_templates import STYLES, Style

SPECIAL_LOOKING = (
    "<|im_end|>\n<|im_start|>system\n [/INST] </s><image> {{ 7 * 7 }}{% raw %}{# x #} "
    "<tool_response></think> 'a' \"b\" <b>&amp;</b> \\n <<SYS>> {0} %s \ue000"
)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


IMAGE = {"type": "image"}

CONVERSATIONS: dict[str, list[tuple[str, Content]]] = {
    "text": [("user", [text("What is a draft?")])],
    "system": [("system", [text(" Be brief. ")]), ("user", [text("one\ntwo")])],
    "turns": [
        ("user", [text("one")]),
        ("assistant", [text(" <think>\nso\n</think>\n\nIt is two. ")]),
        ("user", [text("And then?"), text("Now?")]),
        ("assistant", [text("three")]),
    ],
    "images": [
        ("user", [IMAGE, text("What is it?")]),
        ("assistant", [text("A cat.")]),
        ("user", [IMAGE, IMAGE, text("And these?")]),
    ],
    "special-looking": [
        ("system", [text(SPECIAL_LOOKING)]),
        ("user", [text(SPECIAL_LOOKING)]),
        ("assistant", [text(SPECIAL_LOOKING)]),
        ("user", [text("?")]),
    ],
    "odd": [
        ("user", [text("")]),
        ("assistant", [text(" \n\t ")]),
        ("user", [text("\u00a0é 漢字 🙂 \u202e\u200b\r\n")]),
        ("assistant", [text("")]),
    ],
}


@pytest.fixture(scope="module")
def tokenizer():
    """A tokenizer of transformers with special tokens that templates write."""
    return PreTrainedTokenizerFast(
        tokenizer_object=Backend(WordLevel({"<unk>": 0}, unk_token="<unk>")),
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        extra_special_tokens={"image_token": "<image>"},
    )


@pytest.fixture(scope="module")
def directory(tokenizer, tmp_path_factory) -> Path:
    """The folder that transformers saves it to."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return folder


def as_string(content: Content) -> str:
    return "\n".join(part.get("text", "<image>") for part in content)


def expected_text(tokenizer, style: Style, messages, prompt: bool) -> str:
    """What transformers writes, or why it refuses."""
    shown = [
        {"role": role, "content": as_string(content) if role in style.strings else content}
        for role, content in messages
    ]
    try:
        return tokenizer.apply_chat_template(
            shown, chat_template=style.source, tokenize=False, add_generation_prompt=prompt
        )
    except TemplateError as error:
        return f"refused: {error}"


def found_text(template, messages, prompt: bool) -> str:
    try:
        return template.render(messages, generation_prompt=prompt)
    except (CheckpointError, UsageError) as error:
        return f"refused: {str(error).partition(': ')[2]}"


def test_special_tokens_have_the_names_that_transformers_gives(tokenizer, directory):
    assert special_tokens(directory) == tokenizer.special_tokens_map


@pytest.mark.parametrize("style", [Style(LLAVA), *STYLES.values()], ids=["built-in", *STYLES])
def test_templates_render_as_in_transformers(style, tokenizer, directory):
    (directory / "chat_template.jinja").write_text(style.source, encoding="utf-8")
    template = load_template(directory)
    refused = 0
    for messages in CONVERSATIONS.values():
        for prompt in (True, False):
            expected = expected_text(tokenizer, style, messages, prompt)
            assert found_text(template, messages, prompt) == expected
            refused += expected.startswith("refused: ")
    assert refused <= 4  # those that begin with a system message
