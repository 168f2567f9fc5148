"""A stored record: a conversation as tokens, its prompts and its answers."""

from collections.abc import Sequence
from itertools import chain
from zlib import crc32

import msgspec

from mmspec.drafters.heads.packing import Span
from mmspec.families.family import Vision
from mmspec.families.grid import Grid
from mmspec.ground.tokens import NO_TOKEN
from mmspec.prompt.chat_template import ChatTemplate
from mmspec.prompt.chunks import answer_ids, render
from mmspec.prompt.conversation import Conversation, Turn
from mmspec.prompt.images import Picture
from mmspec.prompt.tokenizer import Tokenizer

NO_TARGET = -100
"""Target of a column whose next token is not trained, as PyTorch's cross-entropy has it."""
Sides = tuple[int, int]
"""Height and width of an image's pixel values."""


class ConversationRecord(msgspec.Struct, frozen=True, array_like=True):
    """Token ids of a conversation: prompts with a NO_TOKEN per image, answers with stop tokens."""

    number: int
    prompts: tuple[tuple[int, ...], ...]
    answers: tuple[tuple[int, ...], ...]
    """None is empty."""
    has_stop: tuple[bool, ...]
    """True for each answer that ends with a stop token; later turns do not read that token."""
    sides: tuple[Sides, ...] = ()
    """The sides of each image, which decide its positions; empty for a target without vision."""
    place: tuple[int, int] | None = None
    """First row and number of rows of the target's states in the cache; None if not stored."""

    @property
    def line(self) -> bytes:
        """A line of JSON: the checksum of the record, and the record."""
        json = msgspec.json.encode(self)
        return msgspec.json.encode((crc32(json), msgspec.Raw(json))) + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "ConversationRecord":
        """Read what `line` returned; raises ValueError for any other line."""
        checksum, json = msgspec.json.decode(line, type=tuple[int, msgspec.Raw])
        if checksum != crc32(json):
            raise ValueError("a record has another checksum than its own")
        return msgspec.json.decode(json, type=cls)

    @property
    def images(self) -> int:
        """The number of images in the conversation."""
        return sum(prompt.count(NO_TOKEN) for prompt in self.prompts)

    def grids(self, vision: Vision | None) -> list[Grid]:
        """The visual positions of each image; empty for a target without vision."""
        return [vision.grid(*sides) for sides in self.sides] if vision else []

    def length(self, vision: Vision | None) -> int:
        """The number of columns in a target, where an image without vision takes one."""
        grids = self.grids(vision)
        return self.columns(sum(grid.positions for grid in grids) if vision else self.images)

    def columns(self, visual: int) -> int:
        """The number of columns if all images together take `visual` of them."""
        tokens = sum(map(len, chain(self.prompts, self.answers))) - sum(self.has_stop)
        return tokens + visual - self.images


def lay_out(
    record: ConversationRecord, image_id: int, positions: Sequence[int]
) -> tuple[list[int], list[int], tuple[Span, ...]]:
    """Return ids [n] and targets [n] of a record's n columns, as in `Batch`, and its images' ones.

    positions: how many each image takes; empty if a single `image_id` stands for an image.
    """
    sizes = iter(positions)
    ids: list[int] = []
    targets: list[int] = []
    images: list[Span] = []
    turns = zip(record.prompts, record.answers, record.has_stop, strict=True)
    for prompt, answer, has_stop in turns:
        for token in prompt:
            size = next(sizes, 0) if token == NO_TOKEN else 0
            if size:
                images.append((len(ids), len(ids) + size))
            ids += [image_id] * (size or 1) if token == NO_TOKEN else [token]
        targets += [NO_TARGET] * (len(ids) - len(targets))
        targets[-1] = answer[0]
        targets += [*answer[1:], *[NO_TARGET] * (not has_stop)]
        ids += answer[: len(answer) - has_stop]
    return ids, targets, tuple(images)


def tokenize(
    number: int, turns: list[Turn], template: ChatTemplate, tokenizer: Tokenizer, stop: int
) -> ConversationRecord:
    """Tokenize a conversation as a chat does; each answer of the dataset ends with `stop`."""
    chunks = render(Conversation(None, turns), template, tokenizer)
    prompts = [chunk for chunk in chunks if not chunk.is_answer]
    answers = ((*answer_ids(turn.answer_text, template, tokenizer), stop) for turn in turns)
    contents = (
        tuple(NO_TOKEN if isinstance(part, Picture) else part for part in prompt.content)
        for prompt in prompts
    )
    return ConversationRecord(number, tuple(contents), tuple(answers), (True,) * len(turns))
