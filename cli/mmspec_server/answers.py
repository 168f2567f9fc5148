"""Generates one answer on the decoding thread, as events."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from mmspec.chat.chat import Chat
from mmspec.chat.draft_selection import pictures
from mmspec.chat.engine import Engine
from mmspec.chat.loaded_model import LoadedModel
from mmspec.chat.options import Options
from mmspec.chat.session import Prefilled
from mmspec.decoding.statistics import Likelihood, Statistics
from mmspec.prompt.chunks import Chunk, answer_ids
from mmspec.prompt.conversation import Conversation, Message
from mmspec.prompt.tool_calls import Call, CallForm
from mmspec_server.decoding import ConversationCache
from mmspec_server.endpoint import ApiError
from mmspec_server.transcript import Transcript

Entry = dict[str, Any]
"""A token's text, bytes and log-probability, and those of the likeliest tokens."""


CONTEXT_TOKENS = 8
"""Last tokens of a text with which its continuation is decoded: more than a character has."""


@dataclass(frozen=True, slots=True)
class RequestPrompt:
    """A question with the turns before it, and its tokens."""

    before: Conversation
    question: Message
    chunks: Sequence[Chunk]
    room: int
    """Positions that the model has left for the answer."""
    context: Sequence[int] = ()
    """The last tokens of a text that the answer continues; none if it begins a text."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Text of one origin."""

    text: str
    drafted: bool = False
    """True for text of accepted drafted tokens, false for the target's own."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text that a round adds to the answer."""

    parts: Sequence[Fragment]
    tokens: Sequence[Entry] = ()
    """Log-probabilities of tokens whose text begins in this one, if they were asked for."""

    @property
    def text(self) -> str:
        """The text of all parts."""
        return "".join(part.text for part in self.parts)

    def first(self, length: int) -> "Text":
        """The first `length` characters and the log-probabilities, which may be of more."""
        starts = accumulate((len(part.text) for part in self.parts), initial=0)
        pairs = zip(self.parts, starts, strict=False)
        cut = [replace(part, text=part.text[: max(length - start, 0)]) for part, start in pairs]
        return Text([part for part in cut if part.text], self.tokens)

    @classmethod
    def joined(cls, texts: "Sequence[Text]") -> "Text":
        """The texts of several rounds as one."""
        tokens = [token for text in texts for token in text.tokens]
        return cls([part for text in texts for part in text.parts], tokens)


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an answer."""

    reason: str
    """'stop', 'length' or 'tool_calls'."""
    statistics: Statistics
    speed_up: float | None = None
    """How many times as fast as plain decoding; None if it is not known."""
    plain_reason: str | None = None
    """Why the answer ended in plain decoding, if drafting did not pay."""
    notes: Sequence[str] = ()
    """A line on each decision that was made automatically, such as an image that was reduced."""
    calls: Sequence[Call] = ()


Event = Prefilled | Text | Finished


def prepare(engine: Engine, transcript: Transcript) -> RequestPrompt:
    """The prompt of a transcript; raises ApiError if the model has no room for an answer."""
    target = engine.target
    turns = transcript.turns()
    if turns[-1].question.is_empty:
        raise ApiError(400, "messages: the last is empty: give a text or an image", "messages")
    if target.features is None and any(turn.pictures for turn in turns):
        raise ApiError(400, "messages: this model is text-only and cannot see images", "messages")
    before = [
        replace(turn, answer=answer_ids(turn.answer_text, target.template, target.tokenizer))
        for turn in turns[:-1]
    ]
    system = "\n\n".join(transcript.system) or None
    asked = transcript.tools, transcript.thinking
    conversation = Conversation(system, [*before, turns[-1]], *asked)
    chunks = target.chunks(conversation, most=target.model.config.text.max_position_embeddings)
    earlier = Conversation(conversation.system, before)
    return RequestPrompt(earlier, turns[-1].question, chunks, _room(engine, chunks))


def prepare_text(engine: Engine, text: str) -> RequestPrompt:
    """The prompt of a text to continue, in which special tokens may be written; see `prepare`."""
    tokenizer = engine.target.tokenizer
    ids = tokenizer.encode_parts(tokenizer.split_special(text))
    if tokenizer.image_token_id in ids:
        raise ApiError(400, "prompt: images are sent to /v1/chat/completions", "prompt")
    if ids[:1] != tokenizer.prefix:
        ids = [*tokenizer.prefix, *ids]
    chunks = [Chunk("prompt", (tuple(ids),))]
    room = _room(engine, chunks, "prompt")
    return RequestPrompt(
        Conversation(), Message("user", (text,)), chunks, room, ids[-CONTEXT_TOKENS:]
    )


def _room(engine: Engine, chunks: Sequence[Chunk], param: str = "messages") -> int:
    target = engine.target
    length = target.views(engine.caption).length(chunks, target.view)
    positions = target.model.config.text.max_position_embeddings
    if length >= positions:
        seen = " with images" if any(pictures(chunks)) else ""
        reason = f"{param}: {length} or more tokens{seen}; the model has {positions}"
        raise ApiError(400, reason, param, "context_length_exceeded")
    return positions - length


def answer(
    cache: ConversationCache, prompt: RequestPrompt, options: Options, *, plain: bool = False
) -> Generator[Event]:
    """Generate the answer, of at most as many tokens as the model has positions left.

    Its text is that of `mmspec generate` for the same messages and options.
    plain: draft nothing; the caches are those of drafted answers.
    """
    fitting = replace(options, max_new_tokens=min(options.max_new_tokens, prompt.room))
    chat = cache.open(fitting, prompt.before, prompt.chunks)
    chat.speculate, chat.context = not plain, prompt.context
    try:
        yield from _events(chat, prompt)
    finally:
        cache.keep(chat, prompt.chunks)


def _events(chat: Chat, prompt: RequestPrompt) -> Generator[Event]:
    entries = _Entries(chat.models.target, begun=bool(prompt.context))
    with chat.send(prompt.question, prompt.chunks) as answering:
        for item in answering:
            if isinstance(item, Prefilled):
                yield item
            elif item.text or item.likelihoods:
                parts = Fragment(item.accepted, drafted=True), Fragment(item.own)
                shown = [part for part in parts if part.text]
                yield Text(shown, entries.of(item.likelihoods))
    done = answering.answer
    reason = "stop" if done.finish_reason == "stop" else "length"
    yield Finished(reason, done.statistics, done.speed_up, done.plain_reason, done.notes)


def with_calls(events: Iterator[Event], form: CallForm, most: int | None) -> Iterator[Event]:
    """The events of an answer with at most `most` calls at the end, in place of their text."""
    text, shown = "", 0
    for event in events:
        if isinstance(event, Text):
            before = len(text)
            text += event.text
            until = max(form.beginning(text), shown)
            late = Fragment(text[shown : min(before, until)])
            parts = [late, *event.first(until - before).parts]
            event, shown = Text([part for part in parts if part.text], event.tokens), until
        elif isinstance(event, Finished):
            calls = form.read(text)[:most]
            if calls:
                event = replace(event, reason="tool_calls", calls=calls)
            elif shown < len(text):
                yield Text([Fragment(text[shown:])])
        yield event


class _Entries:
    """Writes the entries of an answer's tokens, whose texts joined are the answer's."""

    def __init__(self, target: LoadedModel, *, begun: bool) -> None:
        """begun: whether the answer continues a text."""
        self._target, self._begun = target, begun

    def of(self, likelihoods: Sequence[Likelihood]) -> list[Entry]:
        """The entries of the next tokens, without stop tokens."""
        return [self._entry(each) for each in likelihoods if each.token not in self._target.stop]

    def _entry(self, likelihood: Likelihood) -> Entry:
        entry = self._one(likelihood.token, likelihood.logprob)
        likeliest = [self._one(*pair) for pair in likelihood.likeliest]
        self._begun = self._begun or bool(entry["bytes"])
        return {**entry, "top_logprobs": likeliest}

    def _one(self, token: int, logprob: float) -> Entry:
        content = self._target.tokenizer.bytes_of(token)
        if not self._begun:  # an answer's text does not begin with the space before its first word
            content = content.removeprefix(b" ")
        return {"token": content.decode(errors="replace"), "bytes": [*content], "logprob": logprob}
