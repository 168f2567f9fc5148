"""Generates one answer on the decoding thread, as events."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mmspec.chat.answer import Answer, Piece
from mmspec.chat.chat import Chat
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.session import Prefilled
from mmspec.decoding.likelihoods import Likelihood
from mmspec.decoding.statistics import Statistics
from mmspec.prompt.conversation import Chunk, Conversation, Message, answer_ids
from mmspec_server.chat_request import Transcript
from mmspec_server.decoding import ConversationCache
from mmspec_server.endpoint import ApiError

Entry = dict[str, Any]
"""A token's text, bytes and log-probability, and those of the likeliest tokens."""


@dataclass(frozen=True, slots=True)
class RequestPrompt:
    """A question with the turns before it, and its tokens."""

    before: Conversation
    question: Message
    chunks: Sequence[Chunk]
    room: int
    """Positions that the model has left for the answer."""


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
    """Log-probabilities of the round's tokens, if they were asked for.

    They may come before their text, which is withheld while a later token could change it.
    """

    @property
    def text(self) -> str:
        """The text of all parts."""
        return "".join(part.text for part in self.parts)

    @classmethod
    def joined(cls, texts: "Sequence[Text]") -> "Text":
        """The texts of several rounds as one."""
        tokens = [token for text in texts for token in text.tokens]
        return cls([part for text in texts for part in text.parts], tokens)


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an answer."""

    reason: str
    """'stop' or 'length'."""
    statistics: Statistics
    speed_up: float | None = None
    """How many times as fast as plain decoding; None if it is not known."""
    plain_reason: str | None = None
    """Why the answer ended in plain decoding, if drafting did not pay."""


Event = Prefilled | Text | Finished


def prepare(engine: Engine, transcript: Transcript) -> RequestPrompt:
    """The prompt of a transcript; raises ApiError if the model has no room for an answer."""
    target = engine.target
    turns = transcript.turns()
    if target.features is None and any(turn.pictures for turn in turns):
        raise ApiError(400, "messages: this model is text-only and cannot see images", "messages")
    before = [
        replace(turn, answer=answer_ids(turn.answer_text, target.template, target.tokenizer))
        for turn in turns[:-1]
    ]
    conversation = Conversation("\n\n".join(transcript.system) or None, [*before, turns[-1]])
    chunks = target.chunks(conversation, most=target.model.config.text.max_position_embeddings)
    earlier = Conversation(conversation.system, before)
    return RequestPrompt(earlier, turns[-1].question, chunks, _room(engine, chunks))


def _room(engine: Engine, chunks: Sequence[Chunk]) -> int:
    target = engine.target
    length = target.views(engine.caption).length(chunks, target.view)
    positions = target.model.config.text.max_position_embeddings
    if length >= positions:
        reason = f"messages: {length} or more tokens with images; the model has {positions}"
        raise ApiError(400, reason, "messages", "context_length_exceeded")
    return positions - length


def answer(
    cache: ConversationCache,
    prompt: RequestPrompt,
    options: Options,
    stops: Sequence[str],
    *,
    plain: bool = False,
) -> Generator[Event]:
    """Generate the answer, of at most as many tokens as the model has positions left.

    Its text is that of `mmspec generate` for the same messages and options, up to a stop string.
    plain: draft nothing; the caches are those of drafted answers.
    """
    fitting = replace(options, max_new_tokens=min(options.max_new_tokens, prompt.room))
    chat = cache.open(fitting, prompt.before, prompt.chunks)
    chat.speculate = not plain
    try:
        yield from _events(chat, prompt, StopStrings(stops))
    finally:
        cache.keep(chat, prompt.chunks)


def _events(chat: Chat, prompt: RequestPrompt, stops: "StopStrings") -> Generator[Event]:
    with chat.send(prompt.question, prompt.chunks) as answering:
        tokens, origins = _TokenEntries(chat, answering.answer), Origins()
        for item in answering:
            if isinstance(item, Prefilled):
                yield item
                continue
            origins.add(item)
            text = stops.push(item.text)
            report = tokens.new(text, ended=stops.is_over)
            if text or report:
                yield Text(list(origins.take(len(text))), report)
            if stops.is_over:
                break
    if rest := stops.finish():
        yield Text(list(origins.take(len(rest))))
    done = answering.answer
    ended = stops.is_over or done.finish_reason == "stop"
    reason = "stop" if ended else "length"
    yield Finished(reason, done.statistics, done.speed_up, done.plain_reason)


class _TokenEntries:
    """The log-probabilities of an answer's tokens, as its rounds come."""

    def __init__(self, chat: Chat, answer: Answer) -> None:
        self._target, self._answer = chat.models.target, answer
        self._rounds = 0
        self._characters = 0

    def new(self, text: str, *, ended: bool) -> list[Entry]:
        """The entries of new rounds, without stop tokens.

        ended: only of tokens that begin within the shown text.
        """
        rounds = self._answer.rounds[self._rounds :]
        self._rounds += len(rounds)
        self._characters += len(text)
        new: list[Entry] = []
        for likelihood in (each for round_ in rounds for each in round_.likelihoods):
            if likelihood.token in self._target.stop or (ended and self._characters <= 0):
                continue
            new.append(self._entry(likelihood))
            self._characters -= len(new[-1]["token"])
        return new

    def _entry(self, likelihood: Likelihood) -> Entry:
        likeliest = [self._one(token, logprob) for token, logprob in likelihood.likeliest]
        return {**self._one(likelihood.token, likelihood.logprob), "top_logprobs": likeliest}

    def _one(self, token: int, logprob: float) -> Entry:
        tokenizer = self._target.tokenizer
        before = [tokenizer.newline_id]  # a decoder trims the start of a text
        text = tokenizer.decode([*before, token])[len(tokenizer.decode(before)) :]
        return {"token": text, "bytes": list(text.encode()), "logprob": logprob}


@dataclass(slots=True)
class Origins:
    """Remembers the origin of text that is withheld until it can be shown."""

    _held: list[Fragment] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        """Add the text of a round."""
        self._held += [Fragment(piece.accepted, drafted=True), Fragment(piece.own)]

    def take(self, length: int) -> Iterator[Fragment]:
        """Yield the next `length` characters, none of them twice."""
        while length and self._held:
            part = self._held.pop(0)
            shown = replace(part, text=part.text[:length])
            if shown.text:
                yield shown
            length -= len(shown.text)
            if rest := part.text[len(shown.text) :]:
                self._held.insert(0, replace(part, text=rest))


class StopStrings:
    """Passes an answer's text on up to the first stop string.

    Withholds text that could be the beginning of one.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """stops: strings that are not empty."""
        self._stops = stops
        self._held = ""
        self.is_over = False
        """True after the first stop string."""

    def push(self, text: str) -> str:
        """The text that can be shown after `text` has come."""
        self._held += text
        ends = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        self.is_over = bool(ends)
        end = min(ends) if ends else len(self._held) - self._beginning()
        shown, self._held = self._held[:end], self._held[end:]
        return shown

    def finish(self) -> str:
        """The withheld text at the answer's end; nothing if a stop string ended it."""
        return "" if self.is_over else self._held

    def _beginning(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        lengths = range(max(map(len, self._stops), default=1) - 1, 0, -1)
        ends = (length for length in lengths if self._begins(self._held[-length:], length))
        return next(ends, 0)

    def _begins(self, end: str, length: int) -> bool:
        return len(end) == length and any(stop.startswith(end) for stop in self._stops)
