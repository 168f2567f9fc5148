"""Chat templates: render a conversation as the text format that a model was trained on."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from mmspec.ground.errors import CheckpointError, UsageError
from mmspec.ground.input_files import is_there
from mmspec.ground.json_file import Block, read_whole
from mmspec.prompt.tokenizer_files import special_tokens

Content = Sequence[Mapping[str, str]]
"""A message's parts: {"type": "image"} or {"type": "text", "text": …}."""

Tool = Mapping[str, Any]
"""A tool's description, as OpenAI's API has it."""

# What LLaVA-1.5 was trained on. Repositories older than chat templates come without one.
LLAVA = """\
{% for message in messages %}
{% if message.role != 'system' %}{{ message.role | upper }}: {% endif %}
{% for part in message.content if part.type == 'image' %}{{ '<image>\\n' }}{% endfor %}
{% for part in message.content if part.type == 'text' %}{{ part.text + ' ' }}{% endfor %}
{% endfor %}
{% if add_generation_prompt %}ASSISTANT:{% endif %}
"""
MOST_BYTES = 16_000_000
"""The most bytes of a template's file."""
THINKING = "enable_thinking"
"""The variable that tells a template whether answers may think."""
_PROBE, _PROBE_KEY = "mmspec-probe", "mmspec-key"
# A role and a conversation in which it says _PROBE. Some templates take parts of the user alone.
_PROBES = {"user": ["user"], "assistant": ["user", "assistant"], "system": ["system", "user"]}


class ChatTemplate:
    """A checkpoint's chat template, run in a sandbox.

    Raises UsageError for a conversation that it refuses, and CheckpointError, naming its file, if
    it is invalid, writes too much or accesses Python internals.
    """

    def __init__(
        self,
        source: str = LLAVA,
        file: str = "the built-in LLaVA template",
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        """tokens: special tokens that the template may write, by name, such as bos_token."""
        self.source = source
        self.file = file
        self._tokens = dict(tokens or {})

    @property
    def reads_thinking(self) -> bool:
        """Whether a prompt can say if the answer may think."""
        return THINKING in self.source

    def require_thinking(self, thinking: bool | None) -> None:
        """Raise UsageError if prompts cannot say whether answers may think; None: they need not."""
        if thinking is not None and not self.reads_thinking:
            raise UsageError(
                "`thinking` changes nothing here: the model's chat template does not read "
                f"{THINKING}; leave it out"
            )

    def render(
        self,
        messages: Sequence[tuple[str, Content]],
        *,
        generation_prompt: bool = True,
        tools: Sequence[Tool] = (),
        thinking: bool | None = None,
    ) -> str:
        """Render (role, content) messages, by default with the prompt for the next answer.

        thinking: see `require_thinking`.
        """
        self.require_thinking(thinking)
        variables = [self._message(*message) for message in messages]
        return self._run(variables, generation_prompt, tools, thinking)

    def _message(self, role: str, content: Content) -> dict[str, Any]:
        takes_parts = role in self._part_roles
        return {"role": role, "content": list(content) if takes_parts else _flat(content)}

    def tool_texts(self, tool: Tool, name: str, arguments: Tool) -> tuple[str, str]:
        """What it writes of a tool before a question, and of a call in place of an answer."""
        text = self.render([_QUESTION, _answer(_PROBE)], generation_prompt=False, tools=[tool])
        description, _, end = text.partition(_PROBE)
        call = {"type": "function", "function": {"name": name, "arguments": arguments}}
        answer = {"role": "assistant", "content": "", "tool_calls": [call]}
        question = self._message(*_QUESTION)
        whole = self._run([question, answer], generation_prompt=False, tools=[tool])
        return description, whole.removeprefix(description).removesuffix(end)

    def earlier_text(self, answer: str) -> str:
        """What it writes of an answer before a later question; some leave its thoughts out."""
        text = self.render([_QUESTION, _answer(answer), _QUESTION])
        probe = self.render([_QUESTION, _answer(_PROBE), _QUESTION])
        before, _, after = probe.partition(_PROBE)
        return text.removeprefix(before).removesuffix(after)

    @cached_property
    def space_before_answer(self) -> str:
        """The space that it writes between its prompt and the answer, whose first token has it too.

        Empty if it writes none.  Raises CheckpointError for a template that drops answers.
        """
        text = self.render([_QUESTION, _answer(_PROBE)], generation_prompt=False)
        before, probe, _ = text.partition(_PROBE)
        if not probe:
            raise CheckpointError(f"the chat template in {self.file} drops answers")
        space = before.removeprefix(self.render([_QUESTION]))
        return space if space.isspace() else ""

    @cached_property
    def _part_roles(self) -> frozenset[str]:
        """Roles whose content the template takes as parts; of the others it takes a string.

        It takes parts if it writes a part's text, and not the whole part.
        """
        roles = frozenset[str]()
        for role, conversation in _PROBES.items():
            contents = {name: [_part("x")] if name in roles else "x" for name in conversation}
            contents[role] = [_part(_PROBE)]
            messages = [{"role": name, "content": contents[name]} for name in conversation]
            with suppress(CheckpointError, UsageError):
                text = self._run(messages)
                if _PROBE in text and _PROBE_KEY not in text:
                    roles |= {role}
        return roles

    def _run(
        self,
        messages: Sequence[Mapping[str, Any]],
        generation_prompt: bool = True,
        tools: Sequence[Tool] = (),
        thinking: bool | None = None,
    ) -> str:
        from jinja2 import TemplateError

        from mmspec.prompt.template_sandbox import MAX_OUTPUT, render

        if sum(len(str(message["content"])) for message in messages) > MAX_OUTPUT:
            raise UsageError(f"the messages have more than {MAX_OUTPUT} characters: shorten them")
        variables = {
            "messages": messages,
            "add_generation_prompt": generation_prompt,
            "tools": list(tools) or None,
            "documents": None,
            **self._tokens,
        }
        if thinking is not None:
            variables[THINKING] = thinking
        try:
            return render(self.source, variables)
        except Exception as error:  # a template can raise whatever Python can
            if type(error) is TemplateError:  # its own refusal, such as of two questions in a row
                reason = f"the model's chat template refuses: {_printable(error)}"
                raise UsageError(reason) from error
            reason = f"the chat template in {self.file} cannot be used: {_printable(error)}"
            raise CheckpointError(reason) from error


def load_template(directory: Path) -> ChatTemplate:
    """A checkpoint's chat template, else LLaVA-1.5's.  Raises CheckpointError for a broken file."""
    tokens = special_tokens(directory)
    names = "chat_template.json", "processor_config.json", "tokenizer_config.json"
    for file in (directory / name for name in ("chat_template.jinja", *names)):
        if (source := _source(file)) is not None:
            return ChatTemplate(source, str(file), tokens)
    return ChatTemplate(tokens=tokens)


def _source(file: Path) -> str | None:
    """The template in a file; of a JSON file the one named default if there are several."""
    if not is_there(file):
        return None
    if file.suffix == ".jinja":
        return read_whole(file, MOST_BYTES)
    block = Block.of(file)
    source = block.get("chat_template")
    if isinstance(source, list):
        entries = [entry for entry in source if isinstance(entry, dict)]
        source = {entry.get("name"): entry.get("template") for entry in entries}.get("default", "")
    if source is None or (isinstance(source, str) and source):
        return source
    raise block.error("chat_template", "a template, or a list with one named default")


def _printable(error: Exception) -> str:
    reason = " ".join(str(error).split()) or type(error).__name__
    return "".join(c if c.isprintable() else "?" for c in reason[:200])


def _part(text: str) -> Mapping[str, str]:
    return {"type": "text", "text": text, _PROBE_KEY: ""}


def _answer(text: str) -> tuple[str, Content]:
    return "assistant", [_part(text)]


_QUESTION: tuple[str, Content] = ("user", [_part("")])


def _flat(content: Content) -> str:
    """The content as one string, its parts in lines, for templates that take strings."""
    return "\n".join("<image>" if part["type"] == "image" else part["text"] for part in content)
