"""Prompts that are kept from turn to turn are those that a new rendering makes."""

from dataclasses import dataclass
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from test_conversation import KINDS, PARTS, TEMPLATES

from mmspec.chat.loaded_model import LoadedModel
from mmspec.chat.rendering import Rendering
from mmspec.prompt.chat_template import ChatTemplate
from mmspec.prompt.conversation import Chunk, Conversation, Message, render
from mmspec.prompt.tokenizer import Tokenizer


@dataclass
class Model:
    """Renders as a loaded model does."""

    template: ChatTemplate
    tokenizer: Tokenizer

    def chunks(self, conversation: Conversation, **given: Any) -> list[Chunk]:
        return render(conversation, self.template, self.tokenizer, **given)


def opened(model: Model) -> Rendering:
    return Rendering(cast(LoadedModel, model))


ANSWERS = st.lists(st.integers(4, 300), max_size=3)
STEPS = st.lists(
    st.tuples(st.just("ask"), PARTS, ANSWERS)
    | st.tuples(st.sampled_from(["undo", "retry"]), PARTS, ANSWERS)
    | st.tuples(st.sampled_from(["reset", "system"]), PARTS, ANSWERS),
    max_size=8,
)


def changed(talk: Conversation, step: str, parts: tuple[Any, ...], answer: list[int]) -> None:
    """Change an answered conversation as a chat does; it then ends with a question."""
    if step == "system":
        talk.system = "Be brief." if talk.system is None else None
    if step == "reset":
        talk.reset()
    if step == "undo" and talk.turns:
        talk.undo()
    if step == "retry" and talk.turns:
        talk.reopen()
    else:
        talk.add(Message("user", parts))


@settings(max_examples=150)
@given(steps=STEPS, name=st.sampled_from(sorted(TEMPLATES)))
def test_kept_prompts_are_those_of_a_new_rendering(tokenizers, steps, name):
    model = Model(TEMPLATES[name], tokenizers[KINDS[0]])
    rendering, talk = opened(model), Conversation()
    for step, parts, answer in steps:
        changed(talk, step, parts, answer)
        assert rendering.chunks(talk) == model.chunks(talk)
        talk.answer(answer, "")


def test_only_new_questions_are_tokenized(tokenizers, monkeypatch):
    model = Model(ChatTemplate(), tokenizers[KINDS[0]])
    rendering, talk = opened(model), Conversation()
    encode, encoded = model.tokenizer.encode_parts, list[Any]()

    def counted(parts: Any, **given: Any) -> list[int]:
        encoded.extend([parts] if given else [])  # not its own calls of itself
        return encode(parts, **given)

    monkeypatch.setattr(model.tokenizer, "encode_parts", counted)
    for number in range(5):
        talk.add(Message("user", (f"question {number}",)))
        rendering.chunks(talk)
        talk.answer([number], "")
    talk.turns[-1:] = []
    talk.reopen()
    rendering.chunks(talk)
    assert sum("question" in str(parts) for parts in encoded) == 5
