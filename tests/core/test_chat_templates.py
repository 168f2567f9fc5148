"""Chat templates: what transformers writes with them, what is refused, what Ctrl-C ends, files."""

import gc
import json
import os
import random
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable

import pytest
from jinja2 import TemplateError
from jinja2.exceptions import SecurityError
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from mmspec.ground.errors import CheckpointError, UsageError
from mmspec.prompt import template_sandbox
from mmspec.prompt.chat_template import LLAVA, ChatTemplate, load_template
from mmspec.prompt.template_sandbox import ChatEnvironment, render
from support.chat_templates import SNIPPETS, STYLES, Style


def message(role: str, *parts: str | None) -> tuple[str, list[dict[str, str]]]:
    """A message of texts, and of images where None stands."""
    image = {"type": "image"}
    return role, [image if part is None else {"type": "text", "text": part} for part in parts]


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
    "width": "{{ 'x'.ljust(25000000) }}",
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
    template, here, over = ChatTemplate(source), threading.get_ident(), threading.Event()

    def interrupt():
        while not over.wait(0.05):
            frames = traceback.walk_stack(sys._current_frames()[here])
            if "render" in {frame.f_code.co_name for frame, _ in frames}:
                os.kill(os.getpid(), signal.SIGINT)
                return

    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            template.render([message("user", "hello")])
    finally:
        over.set()


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


SPECIAL_LOOKING = (
    "<|im_end|>\n<|im_start|>system\n [/INST] </s><image> {{ 7 * 7 }}{% raw %}{# x #} "
    "<tool_response></think> 'a' \"b\" <b>&amp;</b> \\n <<SYS>> {0} %s \ue000"
)
CONVERSATIONS = [
    [message("user", "What is a draft?")],
    [message("system", " Be brief. "), message("user", "one\ntwo")],
    [
        message("user", "one"),
        message("assistant", " <think>\nso\n</think>\n\nIt is two. "),
        message("user", "And then?", "Now?"),
        message("assistant", "three"),
    ],
    [
        message("user", None, "What is it?"),
        message("assistant", "A cat."),
        message("user", None, None, "And these?"),
    ],
    [
        *(message(role, SPECIAL_LOOKING) for role in ("system", "user", "assistant")),
        message("user", "?"),
    ],
    [
        message("user", ""),
        message("assistant", " \n\t "),
        message("user", "\u00a0é 漢字 🙂 \u202e\u200b\r\n"),
        message("assistant", ""),
    ],
]


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


def expected_text(tokenizer, style: Style, messages, prompt: bool) -> str:
    """What transformers writes, or why it refuses."""
    shown = [{"role": role, "content": content} for role, content in messages]
    for each in shown:
        if each["role"] in style.strings:
            each["content"] = "\n".join(part.get("text", "<image>") for part in each["content"])
    try:
        return tokenizer.apply_chat_template(
            shown, chat_template=style.source, tokenize=False, add_generation_prompt=prompt
        )
    except TemplateError as error:
        return f"refused: {error}"


@pytest.mark.parametrize("style", [Style(LLAVA), *STYLES.values()], ids=["built-in", *STYLES])
def test_templates_render_as_in_transformers(style, tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(style.source, encoding="utf-8")
    template = load_template(tmp_path)
    refused = 0
    for messages in CONVERSATIONS:
        for prompt in (True, False):
            expected = expected_text(tokenizer, style, messages, prompt)
            try:
                found = template.render(messages, generation_prompt=prompt)
            except (CheckpointError, UsageError) as error:
                found = f"refused: {str(error).partition(': ')[2]}"
            assert found == expected
            refused += expected.startswith("refused: ")
    assert refused <= 4  # those that begin with a system message


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
    """The text written, or the error and its message."""
    prompt = {"messages": MESSAGES, "tools": None, "documents": None, "add_generation_prompt": True}
    # Copied as transformers copies: the filter indent changes a list that it is given.
    mine = chat_template_utils._plain_template_data(prompt)
    expected = outcome(
        lambda: chat_template_utils.render_jinja_template(
            [MESSAGES], chat_template=source, add_generation_prompt=True
        )[0][0]
    )
    assert outcome(lambda: render(source, mine)) == expected
