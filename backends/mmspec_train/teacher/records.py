"""Conversations as tokens: the prompts and the answers.

Shape letters: n columns, N positions of one image.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np

from mmspec.drafters.heads.packing import Span
from mmspec.prompt.chat_template import ChatTemplate
from mmspec.prompt.conversation import Conversation, Turn, render
from mmspec.prompt.images import Picture
from mmspec.prompt.tokenizer import Tokenizer
from mmspec_train.mini.conversation import IGNORED, Ids
from mmspec_train.teacher.corpus import Exchange

PICTURE = -1
"""Placeholder id of an image in a record's prompts."""


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """Token ids of a conversation: prompts with a PICTURE per image, answers with stop tokens."""

    number: int
    prompts: tuple[tuple[int, ...], ...]
    answers: tuple[tuple[int, ...], ...]
    stopped: tuple[bool, ...]
    """True for each answer that ends with a stop token, which no model reads."""

    @property
    def images(self) -> int:
        """The number of images in the conversation."""
        return sum(prompt.count(PICTURE) for prompt in self.prompts)

    def columns(self, positions: int) -> int:
        """The number of columns if each image takes `positions` of them."""
        tokens = sum(map(len, chain(self.prompts, self.answers))) - sum(self.stopped)
        return tokens + self.images * (positions - 1)

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps([self.number, self.prompts, self.answers, [int(s) for s in self.stopped]])

    @classmethod
    def from_json(cls, line: str) -> "ConversationRecord":
        """Parse a line written by `to_json`."""
        number, prompts, answers, stopped = json.loads(line)
        return cls(number, _tuples(prompts), _tuples(answers), tuple(map(bool, stopped)))


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """A conversation's token ids and targets, one per column."""

    ids: Ids
    """[n] token ids; an image token at each position of an image."""
    targets: Ids
    """[n] the next token where it belongs to an answer, IGNORED elsewhere."""
    images: tuple[Span, ...]


def lay_out(record: ConversationRecord, image_id: int, positions: int) -> RecordColumns:
    """Lay a record out in columns; with `positions` 0 a single `image_id` stands for an image."""
    ids: list[int] = []
    targets: list[int] = []
    images: list[Span] = []
    turns = zip(record.prompts, record.answers, record.stopped, strict=True)
    for prompt, answer, stopped in turns:
        for token in prompt:
            if token == PICTURE and positions:
                images.append((len(ids), len(ids) + positions))
            ids += [image_id] * (positions or 1) if token == PICTURE else [token]
        targets += [IGNORED] * (len(ids) - len(targets))
        if answer:
            targets[-1] = answer[0]
            targets += [after for _, after in pairwise(answer)] + [IGNORED] * (not stopped)
            ids += answer[: len(answer) - stopped]
    return RecordColumns(np.array(ids, np.int64), np.array(targets, np.int64), tuple(images))


@dataclass(frozen=True, slots=True)
class TokenizedConversation:
    """The prompts of a conversation, turn by turn, and the dataset's answers."""

    number: int
    prompts: tuple[tuple[tuple[int, ...] | Picture, ...], ...]
    answers: tuple[tuple[int, ...], ...]

    @property
    def pictures(self) -> list[Picture]:
        """The images of all prompts, in order."""
        return [part for prompt in self.prompts for part in prompt if isinstance(part, Picture)]

    def record(self, answers: Sequence[Sequence[int]], stop: frozenset[int]) -> ConversationRecord:
        """Return a record with these answers, up to the last turn that has one."""
        stopped = tuple(bool(answer) and answer[-1] in stop for answer in answers)
        prompts = tuple(map(_marked, self.prompts[: len(answers)]))
        return ConversationRecord(self.number, prompts, _tuples(answers), stopped)


def tokenize(
    number: int,
    exchanges: Sequence[Exchange],
    template: ChatTemplate,
    tokenizer: Tokenizer,
    stop: int,
) -> TokenizedConversation:
    """Tokenize a conversation as a chat does; each answer of the dataset ends with `stop`."""
    turns = [Turn(exchange.question, (), exchange.answer) for exchange in exchanges]
    chunks = render(Conversation(None, turns), template, tokenizer)
    prompts = tuple(chunk.parts for chunk in chunks if chunk.kind == "prompt")
    lead = _separator(prompts[-1], tokenizer.decode)
    answers = (
        (*tokenizer.encode_parts([lead + exchange.answer], continues=True), stop)
        for exchange in exchanges
    )
    return TokenizedConversation(number, prompts, tuple(answers))


def _separator(
    prompt: Sequence[tuple[int, ...] | Picture], decode: Callable[[Sequence[int]], str]
) -> str:
    """Return the text between prompt and answer: a space, unless the prompt ends with one."""
    last = prompt[-1] if prompt else ()
    ends_in_space = not isinstance(last, Picture) and decode(last)[-1:].isspace()
    return "" if ends_in_space else " "


def _marked(prompt: Sequence[tuple[int, ...] | Picture]) -> tuple[int, ...]:
    parts = ((PICTURE,) if isinstance(part, Picture) else part for part in prompt)
    return tuple(chain.from_iterable(parts))


def _tuples(lists: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, lists))
