"""Conversations as tokens: records of them, and batches with the target's hidden states.

Shape letters: B sequences, L columns (padded at their ends), H width, n columns of one
conversation, m image rows, l layers of DeepStack, A starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from zlib import crc32

import msgspec
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mmspec.decoding.contents import Row
from mmspec.decoding.contract import Float32, Segment
from mmspec.drafters.heads.packing import Span
from mmspec.families.family import Vision
from mmspec.families.grid import Grid
from mmspec.ground.tokens import NO_TOKEN
from mmspec.prompt.chat_template import ChatTemplate
from mmspec.prompt.chunks import answer_ids, render
from mmspec.prompt.conversation import Conversation, Turn
from mmspec.prompt.images import Picture
from mmspec.prompt.tokenizer import Tokenizer
from mmspec_torch.network.vision import TorchFeatures

NO_TARGET = -100
"""Target of a column whose next token is not trained, as PyTorch's cross-entropy has it."""
Sides = tuple[int, int]
"""Height and width of an image's pixel values."""
EMPTY = torch.zeros(0)


class ConversationRecord(msgspec.Struct, frozen=True, array_like=True):
    """Token ids of a conversation: prompts with a NO_TOKEN per image, answers with stop tokens."""

    number: int
    prompts: tuple[tuple[int, ...], ...]
    answers: tuple[tuple[int, ...], ...]
    """Each has at least one token."""
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


@dataclass(frozen=True, slots=True)
class Batch:
    """The tokens of B conversations, their images and, once the teacher has read it, its states."""

    records: tuple[ConversationRecord, ...]
    ids: Tensor
    """[B, L] token ids, padded at the ends."""
    targets: Tensor
    """[B, L] the next token where it belongs to an answer, NO_TARGET elsewhere."""
    images: tuple[tuple[Span, ...], ...]
    """The columns of the images in each sequence."""
    lengths: tuple[int, ...]
    """The number of columns of each sequence, without padding."""
    positions: Tensor = EMPTY
    """[B, 3, L] rotary positions in the target: time, row and column; 0 for padding."""
    pixels: tuple[Float32, ...] = ()
    """[3, height, width] of each image, in order; may be empty if hidden states are stored."""
    image_rows: Tensor = EMPTY
    """[m, H] stored image rows of all conversations: 1 + l for a position, its embedding first."""
    states: Tensor = EMPTY
    """[B, L, H] hidden states after the last norm, the input of the output matrix."""
    embeddings: Tensor = EMPTY
    """[B, L, H] input embeddings, of tokens and images."""
    layer_outputs: Tensor = EMPTY
    """[B, L, c H] outputs of the layers that the teacher captures, side by side."""

    @property
    def has_loss(self) -> Tensor:
        """[B, L] True where the next token is trained: a token of an answer, or its stop token."""
        return self.targets != NO_TARGET

    @property
    def visual(self) -> Tensor:
        """[B, L] True at the columns of images."""
        visual = torch.zeros(self.ids.shape, dtype=torch.bool)
        for row, spans in enumerate(self.images):
            for first, end in spans:
                visual[row, first:end] = True
        return visual.to(self.ids.device)


def gather_columns(rows: Tensor, columns: Tensor) -> Tensor:
    """Return rows [B, L, H] at columns [B, A], as [B, A, H]."""
    return rows.gather(1, columns.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))


def _pad(rows: Sequence[Tensor], padding: int = 0) -> Tensor:
    """Return sequences [n, ...] as one tensor [B, L, ...], padded at their ends."""
    return pad_sequence(list(rows), batch_first=True, padding_value=padding)


def lay_out(
    record: ConversationRecord, image_id: int, positions: Sequence[int]
) -> tuple[list[int], list[int], tuple[Span, ...]]:
    """Return ids [n] and targets [n] of a record's n columns, and the columns of its images.

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


def in_columns(
    records: Sequence[ConversationRecord], image_id: int, sizes: Sequence[Sequence[int]]
) -> Batch:
    """Pad conversations to the longest; sizes: the columns of each one's images, as `lay_out`'s."""
    layouts = [lay_out(record, image_id, s) for record, s in zip(records, sizes, strict=True)]
    ids, targets, images = zip(*layouts, strict=True)
    return Batch(
        tuple(records),
        _pad(list(map(torch.tensor, ids))),
        _pad(list(map(torch.tensor, targets)), NO_TARGET),
        images,
        tuple(map(len, ids)),
    )


def collate(
    records: Sequence[ConversationRecord],
    pixels: Sequence[Float32],
    rows: Sequence[Tensor],
    image_id: int,
    vision: Vision | None,
    layer_outputs: Sequence[Tensor] = (),
) -> Batch:
    """Lay conversations out in the target's columns.

    rows: [n + m, H] hidden states and image rows of each conversation; layer_outputs: [n, c H]
    those of its captured layers. Both are empty if not stored.
    """
    grids = [record.grids(vision) for record in records]
    batch = in_columns(records, image_id, [[grid.positions for grid in row] for row in grids])
    positions = list(map(rotary_positions, batch.lengths, batch.images, grids))
    states = image_rows = EMPTY
    if rows:
        parts = [part.tensor_split([n]) for part, n in zip(rows, batch.lengths, strict=True)]
        states = _pad([first for first, _ in parts])
        image_rows = torch.cat([second for _, second in parts])
    return replace(
        batch,
        positions=_pad(positions).transpose(1, 2),
        pixels=tuple(pixels),
        image_rows=image_rows,
        states=states,
        layer_outputs=_pad(layer_outputs) if layer_outputs else EMPTY,
    )


def rotary_positions(length: int, images: Sequence[Span], grids: Sequence[Grid]) -> Tensor:
    """Return the rotary positions [n, 3] of a conversation's columns: time, row and column."""
    row: Row[Tensor] = Row()
    for (first, end), grid in zip(images, grids, strict=True):
        row.extend(len(row.tokens), [0] * (first - len(row.tokens)))
        image = TorchFeatures(torch.empty(end - first, 0), grid)
        row.append(first, Segment([image]), lambda image: torch.empty(image.positions, 0))
    row.extend(len(row.tokens), [0] * (length - len(row.tokens)))
    return torch.from_numpy(row.positions(0, length).T)
