"""Conversations as tokens: what the target was asked and what it answered.

Shape letters: n columns, N positions of one image.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mmspec.conversation import Conversation, Turn, render
from mmspec.heads.outline import Span
from mmspec.images import Picture
from mmspec.template import ChatTemplate
from mmspec.tokenizer import Tokenizer
from mmspec_torch.train.conversation import IGNORED
from mmspec_torch.train.distill.corpus import Exchange

PICTURE = -1
"""Stands for an image in a record's prompts."""
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Record:
    """A conversation: prompts, one PICTURE for each image, and answers, stop tokens included."""

    number: int
    prompts: tuple[tuple[int, ...], ...]
    answers: tuple[tuple[int, ...], ...]
    stopped: tuple[bool, ...]
    """Whether an answer's last token ended it, and so was fed to nobody."""

    @property
    def images(self) -> int:
        """Images in the conversation."""
        return sum(prompt.count(PICTURE) for prompt in self.prompts)

    def columns(self, positions: int) -> int:
        """n where each image has so many positions."""
        fed = sum(map(len, chain(self.prompts, self.answers))) - sum(self.stopped)
        return fed + self.images * (positions - 1)

    def to_json(self) -> str:
        """One line."""
        return json.dumps([self.number, self.prompts, self.answers, [int(s) for s in self.stopped]])

    @classmethod
    def from_json(cls, line: str) -> "Record":
        """Read what `to_json` wrote."""
        number, prompts, answers, stopped = json.loads(line)
        return cls(number, _tuples(prompts), _tuples(answers), tuple(map(bool, stopped)))


@dataclass(frozen=True, slots=True)
class Encoded:
    """A record's columns."""

    ids: Ids
    """[n] one image token for each position of an image."""
    targets: Ids
    """[n] the token that came after a column of an answer, IGNORED elsewhere."""
    images: tuple[Span, ...]


def encoded(record: Record, image_id: int, positions: int) -> Encoded:
    """Lay a record out in columns; images without positions become one `image_id` of text."""
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
    return Encoded(np.array(ids, np.int64), np.array(targets, np.int64), tuple(images))


@dataclass(frozen=True, slots=True)
class Script:
    """What a model is asked, turn by turn, and what the data answers."""

    number: int
    prompts: tuple[tuple[tuple[int, ...] | Picture, ...], ...]
    answers: tuple[tuple[int, ...], ...]

    @property
    def pictures(self) -> list[Picture]:
        """In order."""
        return [part for prompt in self.prompts for part in prompt if isinstance(part, Picture)]

    def record(self, answers: Sequence[Sequence[int]], stop: frozenset[int]) -> Record:
        """The conversation with these answers, as far as they go."""
        kept = [tuple(answer) for answer in answers]
        stopped = tuple(bool(answer) and answer[-1] in stop for answer in kept)
        prompts = (_marked(prompt) for prompt in self.prompts[: len(kept)])
        return Record(self.number, tuple(prompts), tuple(kept), stopped)


def script(
    number: int,
    exchanges: Sequence[Exchange],
    template: ChatTemplate,
    tokenizer: Tokenizer,
    stop: int,
) -> Script:
    """Tokenize a conversation as decoding would; the data's answers end with `stop`."""
    turns = [Turn(each.question, (), each.answer) for each in exchanges]
    chunks = render(Conversation(None, turns), template, tokenizer)
    prompts = tuple(chunk.parts for chunk in chunks if chunk.kind == "prompt")
    lead = _lead(prompts[-1], tokenizer.decode)
    answers = (
        (*tokenizer.encode_parts([lead + each.answer], continues=True), stop) for each in exchanges
    )
    return Script(number, prompts, tuple(answers))


def _lead(
    prompt: Sequence[tuple[int, ...] | Picture], decode: Callable[[Sequence[int]], str]
) -> str:
    """What separates a prompt from its answer: nothing where the prompt ends with a space."""
    last = prompt[-1] if prompt else ()
    ends_in_space = not isinstance(last, Picture) and decode(last)[-1:].isspace()
    return "" if ends_in_space else " "


def _marked(prompt: Sequence[tuple[int, ...] | Picture]) -> tuple[int, ...]:
    parts = ((PICTURE,) if isinstance(part, Picture) else part for part in prompt)
    return tuple(chain.from_iterable(parts))


def _tuples(lists: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, lists))
