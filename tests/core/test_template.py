"""Chat templates: what each role's content becomes, what is refused, what Ctrl-C ends, files."""

import gc
import json
import os
import signal
import threading

import pytest

from mmspec.ground.errors import CheckpointError, UsageError
from mmspec.prompt import template_sandbox
from mmspec.prompt.chat_template import ChatTemplate, load_template


def message(role: str, *parts: str | None) -> tuple[str, list[dict[str, str]]]:
    content = [{"type": "image"} if part is None else text(part) for part in parts]
    return role, content


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_what_a_template_refuses_is_said():
    refusing = "{% for m in messages %}{{ raise_exception('no\n\x1b' + m.role) }}{% endfor %}"
    with pytest.raises(UsageError, match=r"no \?system"):
        ChatTemplate(refusing).render([message("system", "x")])


def test_a_template_changes_no_message():
    """The filter indent appends to a list, and the type dict has a method that changes others."""
    changing = "{% set c = messages[0].content %}{{ c | indent if c is iterable }}{{ c[0].text }}"
    messages = [message("user", "hello")]
    ChatTemplate(changing).render(messages)
    assert messages == [message("user", "hello")]
    update = "{% set p = messages[0].content[0] %}{{ dict.update(p, {'role': 'x'}) }}{{ p.text }}"
    with pytest.raises(CheckpointError, match="update"):
        ChatTemplate(update).render(messages)


HOSTILE = {
    "endless text": "{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
    "endless range": "{% for i in range(1000000000) %}x{% endfor %}",
    "product": "{{ 'x' * 25000000 }}",
    "power": "{{ 10 ** 999999999 }}",
    "long quotient": "{{ (1).from_bytes(('x' * 9000000).encode(), 'big')"
    " // (1).from_bytes(('x' * 4500000).encode(), 'big') }}",
    "round": "{{ 5 | round(-999999999) }}",
    "width": "{{ 'x'.ljust(100000000) }}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "long source": "{{ 1 }}" * 1_000_000,
    "nesting": "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
    "dunder": "{{ ''.__class__.__mro__ }}",
    "dunder of a namespace": "{{ namespace(__class__=1) }}",
    "globals": "{{ raise_exception.__globals__.x }}",
    "globals of lipsum": "{{ lipsum.__globals__['os'].popen('id') }}",
    "type": "{{ dict.mro() }}",
    "mutation": "{{ messages.append(1) }}",
    "include": "{% include '/etc/passwd' %}",
    "syntax": "{% if %}",
    "undefined": "{{ x.y }}",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_hostile_templates_end_in_one_line_naming_the_file(source, monkeypatch):
    monkeypatch.setattr(template_sandbox, "MAX_OUTPUT", 10_000_000)  # less to wait for
    with pytest.raises(CheckpointError, match=r"template in chat\.jinja") as caught:
        ChatTemplate(source, "chat.jinja").render([message("user", "hello")])
    assert str(caught.value).isprintable()


INTERNALS = """{{ messages.__class__ }}{{ messages | attr('__class__') }}{{ messages['__class__'] }}
{{ raise_exception.__globals__ }}{{ messages.append }}{{ self.__init__ }}
{{ '{0.__class__}'.format(messages) }}"""


def test_internals_of_python_are_undefined_in_templates():
    assert ChatTemplate(INTERNALS).render([message("user", "hello")]) == "\n\n"


def times(body: str, outside: str = "") -> str:
    """A template that does `body` more often than anyone would wait for."""
    loop = "{% for i in range(99999) %}"
    return f"{outside}{loop}{loop}{body}{'{% endfor %}' * 2}"


LONG = "{% set s = 'A' * 9000000 %}"
NESTED = "{% set n = namespace(a=[]) %}" + "{% set n.a = [n.a, n.a] %}" * 60
ENDLESS = {
    "loops": times(""),
    "slices": times("{% set t = s[1:] %}", LONG),
    "rounds of a loop": LONG + "{% for x in range(99999) recursive %}"
    "{% if loop.depth == 1 %}{{ loop(s) }}{% endif %}{% endfor %}",
    "lists in lists, as JSON": NESTED + "{{ n.a | tojson }}",
}


@pytest.fixture
def _no_collection():
    """Python drops a KeyboardInterrupt that arrives while the collector calls somebody back."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_ctrl_c_ends_a_template_that_runs_on(source):
    template = ChatTemplate(source)
    sender = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))

    def interrupted():
        sender.start()
        try:
            template.render([message("user", "hello")])
        finally:
            sender.join()

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted()
    assert "render" in {entry.name for entry in caught.traceback}, "it ended by itself"


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
