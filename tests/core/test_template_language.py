"""What the environment of templates adds to Jinja's or replaces does what transformers' does.

Each runs in both on all combinations of values and arguments; the text written, or the error and
its message, must be equal.
"""

import random
import re
from collections.abc import Callable, Iterable
from itertools import product

import pytest
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment as Jinja
from transformers.utils import chat_template_utils

from mmspec.prompt.template_sandbox import ChatEnvironment, rendered
from support.chat_templates import SNIPPETS

ORACLE = chat_template_utils._compile_jinja_template("").environment
MESSAGES = [
    {"role": "user", "content": "one\n two <b>'\"&é"},
    {"role": "assistant", "content": "", "name": "x"},
]
VALUES = [
    *("a b", "<i>Ab</i> 1.5, www.b.org", 0, -2.55, None, [3, 1, 2], [[2, "b"], [1, "A"]]),
    *({"k": 1, "A": "x"}, MESSAGES),
]
ARGUMENTS = [
    *([], [2], ["role"], [None], ["upper"], [["a", 2]], [{"a": "b"}], ["a", "b"], [1, "ceil"]),
    ["role", "equalto", "user"],
]
CALLS = [(args, {}) for args in ARGUMENTS] + [([], {"attribute": "role"}), ([], {"indent": 2})]
SHOWN = "{{ r }}{% if r is iterable and r is not string %}{{ r | list }}{% endif %}"


def compared(source: str, **variables: object) -> str:
    """What both write; fails where they differ."""
    prompt = {"messages": MESSAGES, "tools": None, "documents": None, "add_generation_prompt": True}
    # Copied as transformers copies: the filter indent changes a list that it is given.
    mine = chat_template_utils._plain_template_data(prompt | variables)
    found = outcome(lambda: rendered(source, mine))
    expected = outcome(
        lambda: chat_template_utils.render_jinja_template(
            [MESSAGES], chat_template=source, add_generation_prompt=True, **variables
        )[0][0]
    )
    assert found == expected, (source, variables)
    return found


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


def assert_equal_calls(expression: str, values: Iterable[object]) -> None:
    """Compare `expression`, of value, args and named; some calls of it must succeed."""
    source = f"{{% set r = {expression} %}}{SHOWN}"
    texts = [
        compared(source, value=value, args=args, named=named)
        for value, (args, named) in product(values, CALLS)
    ]
    assert any(not text.startswith("refused") for text in texts)


REPLACED = {
    "filters": {"tojson"},
    "tests": set(),
    "globals": {"dict", "namespace", "raise_exception", "strftime_now"},
}


@pytest.mark.parametrize("kind", REPLACED)
def test_the_rest_is_jinjas_own(kind):
    ours, jinjas = (getattr(each, kind) for each in (ChatEnvironment(), Jinja()))
    assert {name for name in ours if ours[name] is not jinjas.get(name)} == REPLACED[kind]
    assert ours.keys() == getattr(ORACLE, kind).keys()


def test_filters():
    assert_equal_calls("value | tojson(*args, **named)", VALUES)


@pytest.mark.parametrize("name", sorted(REPLACED["globals"] - {"raise_exception"}))
def test_functions(name):
    assert_equal_calls(f"{name}(*args, **named)", [None])


@pytest.mark.parametrize("source", SNIPPETS)
def test_tags_and_expressions(source):
    compared(source)
