import json
import time

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from mmspec.errors import CheckpointError
from mmspec.template import LLAVA, ChatTemplate, load_template

# Written for these tests in the manner of the templates that checkpoints carry.
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
STRINGS = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] | trim + ' [/INST]' }}{% elif message.role == 'system' %}"
    "{{ raise_exception('no system message') }}{% else %}"
    "{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}"
)
GENERATION = (
    "{%- for message in messages -%}\n  {{ message.role }}:\n"
    "  {% for part in message.content if part.type == 'text' %}\n"
    "    {% generation %}{{ part.text | tojson }}{% endgeneration %}\n"
    "    {% if loop.last %}{% continue %}{% endif %}\n"
    "  {% endfor %}\n{%- endfor -%}"
)


def said(role: str, *parts: str | None) -> tuple[str, list[dict[str, str]]]:
    content = [{"type": "image"} if part is None else text(part) for part in parts]
    return role, content


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


CONVERSATIONS = [
    [said("user", None, "what is it?")],
    [said("user", "one", "two"), said("assistant", "three"), said("user", None, None, "four")],
    [said("system", "Be brief."), said("user", "one <b>&'\"</b>"), said("assistant", "two")],
]


@pytest.mark.parametrize("source", [LLAVA, CHATML, GENERATION])
@pytest.mark.parametrize("messages", CONVERSATIONS)
@pytest.mark.parametrize("prompt", [True, False])
def test_templates_render_as_in_transformers(source, messages, prompt):
    listed = [{"role": role, "content": content} for role, content in messages]
    expected, _ = render_jinja_template(
        [listed], chat_template=source, add_generation_prompt=prompt
    )
    assert ChatTemplate(source).render(messages, generation_prompt=prompt) == expected[0]


def test_the_built_in_template_is_llavas():
    messages = [
        said("system", "Be kind."),
        said("user", "what", None, "now?", None),
        said("assistant", "this"),
        said("user", "why"),
    ]
    assert ChatTemplate().render(messages) == (
        "Be kind. USER: <image>\n<image>\nwhat now? ASSISTANT: this USER: why ASSISTANT:"
    )


def test_templates_that_want_strings_get_strings():
    template = ChatTemplate(STRINGS, tokens={"bos_token": "<s>", "eos_token": "</s>"})
    messages = [said("user", None, " what "), said("assistant", "this"), said("user", "why")]
    assert template.render(messages) == (
        "<s>[INST] <image>\n what [/INST] this</s>[INST] why [/INST]"
    )
    with pytest.raises(CheckpointError, match="no system message"):
        template.render([said("system", "x"), *messages])


def test_long_conversations_fit_the_budget():
    messages = [said("user", None, "x" * 5_000), said("assistant", "y" * 5_000)] * 200
    for source in (LLAVA, CHATML):
        assert len(ChatTemplate(source).render(messages)) > 2_000_000


NAMESPACE = "{% set n = namespace(s='xx') %}{% for i in range(100) %}"
HOSTILE = {
    "endless range": "{% for i in range(1000000000) %}x{% endfor %}",
    "power": "{% for i in range(10 ** 9) %}x{% endfor %}",
    "nested loops": "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
    "loops over one list": (
        "{% set r = range(5000) %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}"
    ),
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "branching recursion": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"
    ),
    "recursive loop": "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "product": "{{ 'x' * 1000000000 }}",
    "list product": "{{ [0] * 1000000000 }}",
    "width": "{{ 'x'.ljust(1000000000) }}",
    "filter width": "{{ 'x' | center(1000000000) }}",
    "format width": "{{ '%1000000000d' % 1 }}",
    "format star": "{{ '%*d' % (1000000000, 1) }}",
    "str.format": "{{ '{:1000000000}'.format(1) }}",
    "str.format by map": "{{ ['{:1000000000}'] | map('format', 1) | list }}",
    "doubling by ~": NAMESPACE + "{% set n.s = n.s ~ n.s %}{% endfor %}",
    "doubling by +": NAMESPACE + "{% set n.s = n.s + n.s %}{% endfor %}",
    "doubling by block": NAMESPACE + "{% set n.s %}{{ n.s }}{{ n.s }}{% endset %}{% endfor %}",
    "nesting lists": NAMESPACE + "{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s }}",
    "nesting tuples": NAMESPACE + "{% set n.s = (n.s, n.s) %}{% endfor %}{{ n.s == n.s }}",
    "nesting dicts": NAMESPACE + "{% set n.s = {1: n.s, 2: n.s} %}{% endfor %}{{ n.s }}",
    "nesting calls": NAMESPACE + "{% set n.s = dict(a=n.s, b=n.s) %}{% endfor %}{{ n.s }}",
    "nesting namespaces": NAMESPACE
    + "{% set n.s = namespace(a=n.s, b=n.s) %}{% endfor %}{{ n.s }}",
    "squaring": "{% set n = namespace(i=9) %}{% for i in range(99) %}{% set n.i = n.i * n.i %}"
    "{% endfor %}",
    "join": "{{ ('x' * 1000000).join(range(9999) | map('string')) }}",
    "replace": "{{ ('x' * 99999).replace('x', 'x' * 99999) }}",
    "indent": "{{ range(9999) | list | tojson(indent=999999) }}",
    "dunder": "{{ ''.__class__.__mro__ }}",
    "dunder of messages": "{{ messages.__class__ }}",
    "dunder by filter": "{{ messages | attr('__class__') }}",
    "dunder by map": "{{ [''] | map(attribute='__class__') | list }}",
    "globals": "{{ raise_exception.__globals__ }}",
    "type": "{{ dict.mro() }}",
    "mutation": "{{ messages.append(1) }}",
    "include": "{% include '/etc/passwd' %}",
    "lipsum": "{{ lipsum(100000) }}",
    "nesting": "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
    "syntax": "{% if %}",
    "undefined": "{{ x.y }}",
    "refusal": "{{ raise_exception('line\n\x1b[31mtwo') }}",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_hostile_templates_end_in_one_line_naming_the_file(source):
    started = time.perf_counter()
    with pytest.raises(CheckpointError, match=r"template in chat\.jinja") as caught:
        ChatTemplate(source, "chat.jinja").render([said("user", "hello")])
    assert str(caught.value).isprintable()
    assert time.perf_counter() - started < 60


def test_a_spent_budget_is_whole_again():
    template = ChatTemplate(
        "{{ messages[0].content[0].text }}"
        "{% for j in [1, 2] %}{% for i in range(30000) %}{% endfor %}{% endfor %}"
    )
    for _ in range(3):
        assert template.render([said("user", "hello")]) == "hello"


# --- files ----------------------------------------------------------------------------------


def write(directory, name, content):
    (directory / name).write_text(content if isinstance(content, str) else json.dumps(content))


def rendered(directory) -> str:
    return load_template(directory).render([said("user", "hello")])


def test_templates_are_found_where_checkpoints_keep_them(tmp_path):
    assert rendered(tmp_path) == "USER: hello ASSISTANT:"
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    write(tmp_path, "tokenizer_config.json", {"chat_template": named, "bos_token": "<s>"})
    assert rendered(tmp_path) == "d"
    write(tmp_path, "processor_config.json", {"chat_template": "p"})
    assert rendered(tmp_path) == "p"
    write(tmp_path, "chat_template.json", {"chat_template": "c"})
    assert rendered(tmp_path) == "c"
    write(tmp_path, "chat_template.jinja", "{{ bos_token }}j")
    assert rendered(tmp_path) == "<s>j"


@pytest.mark.parametrize("stated", [7, "", [], [{"name": "other", "template": "t"}]])
def test_other_statements_are_refused(tmp_path, stated):
    write(tmp_path, "tokenizer_config.json", {"chat_template": stated})
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json: chat_template"):
        load_template(tmp_path)


def test_a_template_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja"):
        load_template(tmp_path)
