"""What the environment of templates adds to Jinja's or replaces does what transformers' does.

Snippets run in both; the text written, or the error and its message, must be equal.
"""

import random
import re
from collections.abc import Callable

import pytest
from jinja2.exceptions import SecurityError
from transformers.utils import chat_template_utils

from mmspec.prompt.template_sandbox import ChatEnvironment, render
from support.chat_templates import SNIPPETS

ORACLE = chat_template_utils._compile_jinja_template("").environment
MESSAGES = [
    {"role": "user", "content": "one\n two <b>'\"&é"},
    {"role": "assistant", "content": "", "name": "x"},
]


def outcome(render: Callable[[], str]) -> str:
    """What is written, without addresses, or the error, with Jinja's or Python's message."""
    random.seed(0)
    try:
        text = render()
    except SecurityError:
        return "refused as unsafe"
    except Exception as error:  # noqa: BLE001 - a template can raise whatever Python can
        named = re.sub(r"\S+\(\)|'\S+ object'", "it", f"refused by {type(error).__name__}: {error}")
        return re.sub(r"takes \d+ (.*) but \d+", r"takes n \1 but n", named)  # self is not counted
    return re.sub("0x[0-9a-f]+", "0x", text)


@pytest.mark.parametrize("kind", ["filters", "tests", "globals"])
def test_there_is_what_transformers_has(kind):
    assert getattr(ChatEnvironment(), kind).keys() == getattr(ORACLE, kind).keys()


@pytest.mark.parametrize("source", SNIPPETS)
def test_tags_and_expressions(source):
    prompt = {"messages": MESSAGES, "tools": None, "documents": None, "add_generation_prompt": True}
    # Copied as transformers copies: the filter indent changes a list that it is given.
    mine = chat_template_utils._plain_template_data(prompt)
    expected = outcome(
        lambda: chat_template_utils.render_jinja_template(
            [MESSAGES], chat_template=source, add_generation_prompt=True
        )[0][0]
    )
    assert outcome(lambda: render(source, mine)) == expected
