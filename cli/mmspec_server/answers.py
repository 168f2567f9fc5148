"""Generates one answer on the decoding thread, as events."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from mmspec.chat.answer import Answer
from mmspec.chat.chat import Chat
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.session import Prefilled
from mmspec.decoding.statistics import Statistics
from mmspec.prompt.conversation import Chunk, Conversation, Message, Turn, answer_ids
from mmspec_server.conversation_cache import ConversationCache
from mmspec_server.errors import ApiError
from mmspec_server.messages import Dialogue
from mmspec_server.origins import Origins, Part
from mmspec_server.stop_strings import StopStrings
from mmspec_server.token_texts import Entry, entries, within


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question with the turns before it, and its tokens."""

    before: Conversation
    question: Message
    chunks: Sequence[Chunk]
    room: int
    """Positions that the model has left for the answer."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text that a round adds to the answer."""

    parts: Sequence[Part]
    tokens: Sequence[Entry] = ()
    """Log-probabilities of the round's tokens, if they were asked for.

    They may come before their text, which is withheld while a later token could change it.
    """

    @property
    def text(self) -> str:
        """The text of all parts."""
        return "".join(part.text for part in self.parts)


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


def prepare(engine: Engine, dialogue: Dialogue) -> Prompt:
    """The prompt of a dialogue; raises ApiError if the model has no room for an answer."""
    target = engine.target
    *earlier, question = dialogue.messages()
    if target.features is None and any(message.pictures for message in (*earlier, question)):
        raise ApiError(400, "messages: this model is text-only and cannot see images", "messages")
    answers = [answer_ids(text, target.template, target.tokenizer) for text in dialogue.answers]
    turns = [
        Turn(message, ids, text)
        for message, ids, text in zip(earlier, answers, dialogue.answers, strict=True)
    ]
    before = Conversation("\n\n".join(dialogue.system) or None, turns)
    opened = Conversation(before.system, [*turns, Turn(question)])
    chunks = target.chunks(opened, most=target.model.config.text.max_position_embeddings)
    return Prompt(before, question, chunks, _room(engine, chunks))


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
    prompt: Prompt,
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


def _events(chat: Chat, prompt: Prompt, stops: StopStrings) -> Generator[Event]:
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
        """The entries of new rounds; ended: only of tokens that begin within the shown text."""
        rounds = self._answer.rounds[self._rounds :]
        self._rounds += len(rounds)
        likelihoods = [each for round_ in rounds for each in round_.likelihoods]
        self._characters += len(text)
        new = entries(likelihoods, self._target.tokenizer, self._target.stop)
        new = within(new, self._characters) if ended else new
        self._characters -= sum(len(entry["token"]) for entry in new)
        return new
