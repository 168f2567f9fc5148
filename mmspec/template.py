"""Chat templates: a conversation's messages to the text a model was trained to see."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmspec.errors import CheckpointError
from mmspec.jsonfile import Block, read_json

if TYPE_CHECKING:
    from jinja2 import Template

    from mmspec.sandbox import BoundedEnvironment

Content = Sequence[Mapping[str, str]]
"""A message's parts: {"type": "image"} or {"type": "text", "text": …}."""

# What LLaVA-1.5 was trained on. Repositories older than chat templates come without one.
LLAVA = """\
{% for message in messages %}
{% if message.role != 'system' %}{{ message.role | upper }}: {% endif %}
{% for part in message.content if part.type == 'image' %}{{ '<image>\\n' }}{% endfor %}
{% for part in message.content if part.type == 'text' %}{{ part.text + ' ' }}{% endfor %}
{% endfor %}
{% if add_generation_prompt %}ASSISTANT:{% endif %}
"""
_PROBE = "mmspec-probe"


class ChatTemplate:
    """A template from a checkpoint, run in a sandbox.

    Raises CheckpointError naming its file where it is not valid, runs on, grows without bound or
    reaches for Python.
    """

    def __init__(
        self,
        source: str = LLAVA,
        file: str = "the built-in LLaVA template",
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        """`tokens` are the special tokens a template may write, bos_token and the like."""
        self.source = source
        self.file = file
        self._tokens = dict(tokens or {})

    def render(
        self, messages: Sequence[tuple[str, Content]], *, generation_prompt: bool = True
    ) -> str:
        """Return the text of (role, content) messages, up to where the model is to go on."""
        shown = [
            {"role": role, "content": list(content) if self._takes_parts else _flat(content)}
            for role, content in messages
        ]
        return self._run(shown, generation_prompt)

    @cached_property
    def _takes_parts(self) -> bool:
        """Whether contents are lists of parts; templates of text-only models want strings."""
        message = {"role": "user", "content": [{"type": "text", "text": _PROBE}]}
        try:
            text = self._run([message], True)
        except CheckpointError:
            return False
        return _PROBE in text and "'text'" not in text and '"text"' not in text

    def _run(self, messages: Sequence[Mapping[str, Any]], generation_prompt: bool) -> str:
        environment, template = self._compiled
        environment.renew()
        try:
            return template.render(
                messages=messages, add_generation_prompt=generation_prompt, **self._tokens
            )
        except Exception as error:  # a template can raise whatever Python can
            raise self._refused(error) from error

    @cached_property
    def _compiled(self) -> "tuple[BoundedEnvironment, Template]":
        from mmspec.sandbox import BoundedEnvironment

        environment = BoundedEnvironment()
        try:
            return environment, environment.from_string(self.source)
        except Exception as error:  # nor is its syntax bounded by anything
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> CheckpointError:
        reason = " ".join(str(error).split()) or type(error).__name__
        printable = "".join(c if c.isprintable() else "?" for c in reason[:200])
        return CheckpointError(f"the chat template in {self.file} cannot be used: {printable}")


def load_template(directory: Path) -> ChatTemplate:
    """Return the chat template of a checkpoint directory, LLaVA-1.5's where it has none.

    Raises CheckpointError for a malformed file.
    """
    tokens = _special_tokens(directory)
    file = directory / "chat_template.jinja"
    if file.is_file():
        try:
            return ChatTemplate(file.read_text(encoding="utf-8"), str(file), tokens)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"cannot read {file}: {error}") from error
    for name in ("chat_template.json", "processor_config.json", "tokenizer_config.json"):
        file = directory / name
        source = _stated(file)
        if source is not None:
            return ChatTemplate(source, str(file), tokens)
    return ChatTemplate(tokens=tokens)


def _stated(file: Path) -> str | None:
    """Return the template in a JSON file, of several the one named default."""
    if not file.is_file():
        return None
    block = Block(read_json(file), file)
    stated = block.get("chat_template")
    if isinstance(stated, list):
        objects = [each for each in stated if isinstance(each, dict)]
        named = {each.get("name"): each.get("template") for each in objects}
        stated = named.get("default", "")
    if stated is not None and not (isinstance(stated, str) and stated):
        raise block.error("chat_template", "a template, or a list with one named default")
    return stated


def _special_tokens(directory: Path) -> dict[str, str]:
    tokens = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        file = directory / name
        for key, value in (read_json(file) if file.is_file() else {}).items():
            content = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(content, str):
                tokens[key] = content
    return tokens


def _flat(content: Content) -> str:
    """Return parts as one string, images as markers first, for templates that want strings."""
    images = ["<image>\n" for part in content if part["type"] == "image"]
    return "".join(images + [part["text"] for part in content if part["type"] == "text"])
