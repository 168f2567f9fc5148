import _thread
import json
import threading
import time

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from mmspec.errors import CheckpointError
from mmspec.prompt import template_sandbox
from mmspec.prompt.chat_template import LLAVA, ChatTemplate, load_template
from support.chat_templates import STYLES as CHECKPOINT_STYLES
from support.chat_templates import Style


def message(role: str, *parts: str | None) -> tuple[str, list[dict[str, str]]]:
    content = [{"type": "image"} if part is None else text(part) for part in parts]
    return role, content


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


CONVERSATIONS = [
    [message("user", None, "what is it?")],
    [
        message("user", "one", "two"),
        message("assistant", "three"),
        message("user", None, None, "four"),
    ],
    [
        message("system", "Be brief."),
        message("user", "one <b>&'\"</b>"),
        message("assistant", "two"),
    ],
]


STYLES = {"the built-in": Style(LLAVA), **CHECKPOINT_STYLES}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("messages", CONVERSATIONS)
@pytest.mark.parametrize("prompt", [True, False])
def test_templates_render_as_in_transformers(style, messages, prompt):
    shown = [
        {"role": role, "content": as_string(content) if style.strings else content}
        for role, content in messages
    ]
    expected, _ = render_jinja_template(
        [shown], chat_template=style.source, add_generation_prompt=prompt, **TOKENS
    )
    template = ChatTemplate(style.source, tokens=TOKENS)
    assert template.render(messages, generation_prompt=prompt) == expected[0]


def as_string(content: list[dict[str, str]]) -> str:
    images = ["<image>\n" for part in content if part["type"] == "image"]
    return "".join(images + [part["text"] for part in content if part["type"] == "text"])


def test_the_built_in_template_is_llavas():
    messages = [
        message("system", "Be kind."),
        message("user", "what", None, "now?", None),
        message("assistant", "this"),
        message("user", "why"),
    ]
    assert ChatTemplate().render(messages) == (
        "Be kind. USER: <image>\n<image>\nwhat now? ASSISTANT: this USER: why ASSISTANT:"
    )


def test_what_a_template_refuses_is_said():
    refusing = "{% for m in messages %}{{ raise_exception('no ' + m.role) }}{% endfor %}"
    with pytest.raises(CheckpointError, match="no system"):
        ChatTemplate(refusing).render([message("system", "x")])


def test_long_conversations_are_rendered():
    messages = [message("user", None, "x" * 5_000), message("assistant", "y" * 5_000)] * 200
    for source in (LLAVA, CHECKPOINT_STYLES["chatml"].source):
        assert len(ChatTemplate(source).render(messages)) > 2_000_000


HOSTILE = {
    "endless text": "{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
    "endless range": "{% for i in range(1000000000) %}x{% endfor %}",
    "product": "{{ 'x' * 1000000000 }}",
    "list product": "{{ 1000000000 * [0] }}",
    "power": "{{ 10 ** 999999999 }}",
    "squaring": "{% set n = namespace(i=9) %}{% for i in range(99) %}{% set n.i = n.i * n.i %}"
    "{% endfor %}",
    "width": "{{ 'x'.ljust(100000000) }}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "recursive loop": "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "long source": "{{ 1 }}" * 1_000_000,
    "nesting": "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
    "dunder": "{{ ''.__class__.__mro__ }}",
    "dunder of messages": "{{ messages.__class__ }}",
    "dunder by item": "{{ messages['__class__'] }}",
    "dunder by filter": "{{ messages | attr('__class__') }}",
    "dunder by map": "{{ [''] | map(attribute='__class__') | list }}",
    "dunder by format": "{{ '{0.__class__}'.format(messages) }}",
    "dunder of a namespace": "{{ namespace(__class__=1) }}",
    "globals": "{{ raise_exception.__globals__ }}",
    "globals of a macro": "{% macro f() %}{% endmacro %}{{ f.__init__.__globals__ }}",
    "type": "{{ dict.mro() }}",
    "mutation": "{{ messages.append(1) }}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "extends": "{% extends '/etc/passwd' %}",
    "chance": "{{ lipsum(100000) }}",
    "syntax": "{% if %}",
    "undefined": "{{ x.y }}",
    "refusal": "{{ raise_exception('line\n\x1b[31mtwo') }}",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_hostile_templates_end_in_one_line_naming_the_file(source, monkeypatch):
    monkeypatch.setattr(template_sandbox, "MAX_OUTPUT", 1_000_000)  # squares grow up to it
    started = time.perf_counter()
    with pytest.raises(CheckpointError, match=r"template in chat\.jinja") as caught:
        ChatTemplate(source, "chat.jinja").render([message("user", "hello")])
    assert str(caught.value).isprintable()
    assert time.perf_counter() - started < 60


def test_ctrl_c_ends_a_template_that_runs_on():
    loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    template = ChatTemplate(loops)

    def interrupted():  # on a busy machine the key may come before the template runs
        threading.Timer(0.2, _thread.interrupt_main).start()
        template.render([message("user", "hello")])

    with pytest.raises(KeyboardInterrupt):
        interrupted()


# --- files ----------------------------------------------------------------------------------


def write(directory, name, content):
    (directory / name).write_text(content if isinstance(content, str) else json.dumps(content))


def rendered(directory) -> str:
    return load_template(directory).render([message("user", "hello")])


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
