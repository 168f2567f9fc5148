"""Finds out for which numbers of rows a model on this machine gives every row the same bits.

Hidden states, logits, keys and values of tokens that are fed one by one are compared, bit for bit,
with those of the same tokens in chains and trees, beside other tokens, and after a gather of the
cache: near the start with every number of rows, further on with some, and at both sides of every
block of keys with few.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from mmspec.decoding.block_attention import BLOCK
from mmspec.decoding.contract import Model, Segment
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY

CANDIDATES = (
    *(ExactRows(multiple, most) for multiple in (1, 2, 4, 8) for most in (64, 16, 8)),
    ExactRows(16, 16),
    ExactRows(32, 32),
)
"""Numbers of rows to try, those that pad a plain token least first."""
POSITIONS = 8192
"""The most positions of a model at which blocks are compared."""
START = BLOCK - 20
"""Tokens before the rows that are compared with every number of rows."""
FAR = (512, 2048, POSITIONS)
"""Ends of blocks around which some numbers of rows are compared, up to the most; the last block of
a shorter model is one of them."""
SIBLINGS = (1, 2, 5)
"""Numbers of wrong siblings before each right node of the trees."""
NEAR = 4
"""Tokens that are compared at the end of each block."""


def find_exact_rows(model: Model) -> ExactRows | None:
    """The first of CANDIDATES with which every row has the same bits; None if there is none."""
    return next((rows for rows in CANDIDATES if rows_are_exact(model, rows)), None)


def rows_are_exact(model: Model, rows: ExactRows) -> bool:
    """True if no bit of a row depends on what is fed beside it, at any place compared."""
    sequence = _Sequence(model, rows)
    positions = min(model.config.text.max_position_embeddings, POSITIONS)
    return all(
        chain(
            _with_every_number(sequence, rows.most),
            _at_blocks(sequence, positions),
            *(_with_some_numbers(sequence, rows.most, end) for end in _far(rows.most, positions)),
        )
    )


def _far(most: int, positions: int) -> list[int]:
    """Ends of blocks far from the start, around which `most` rows have room."""
    last = (positions - most) // BLOCK * BLOCK
    return sorted({min(end, last) for end in FAR if last > 2 * BLOCK})


class _Sequence:
    """A target that is fed one fixed sequence of tokens in different ways."""

    def __init__(self, model: Model, rows: ExactRows) -> None:
        self.has_trees = model.config.text.delta_net is None
        self._target = model.open_target(GREEDY, rows)
        self._vocabulary = model.config.text.vocab_size

    def token(self, place: int) -> int:
        """The token at a place of the sequence."""
        return (place * 7919 + 13) % self._vocabulary

    def wrong_token(self, place: int) -> int:
        """A token that differs from the one at a place."""
        return (self.token(place) + 1 + place % 5) % self._vocabulary

    def reach(self, length: int) -> None:
        """Make the sequence `length` tokens long."""
        target = self._target
        target.rewind(min(target.length, length))
        missing = range(target.length, length)
        target.extend(Segment([[self.token(place) for place in missing]]))

    def one_by_one(self, number: int) -> list[bytes]:
        """The bits of the last token and of those after it, each fed alone."""
        length, bits = self._target.length, list[bytes]()
        for _ in range(number):
            bits += self.rows(None)
            self.advance()
        self._target.rewind(length)
        return bits

    def advance(self) -> None:
        """Make the sequence one token longer, by a plain round."""
        self.commit(None, [], self.token(self._target.length))

    def rows(self, draft: HostDraft | None) -> list[bytes]:
        """The bits of the last token and of each drafted one, all that feeding it computes."""
        rows = zip(*self._target.fed_rows(draft), strict=True)
        return [b"".join(part.tobytes() for part in row) for row in rows]

    def chain(self, length: int, right: int) -> HostDraft | None:
        """A draft of `length` tokens, of which the first `right` are the sequence's; None if 0."""
        places = range(self._target.length, self._target.length + length)
        ids = [self.token(p) if p - places[0] < right else self.wrong_token(p) for p in places]
        return HostDraft(ids) if ids else None

    def tree(self, length: int, siblings: int) -> tuple[HostDraft, list[int]]:
        """A draft with `length` right tokens, each after wrong siblings, and their path."""
        ids, parents, path, parent = list[int](), list[int](), list[int](), -1
        for place in range(self._target.length, self._target.length + length):
            ids += [self.wrong_token(place + number) for number in range(siblings)]
            ids.append(self.token(place))
            parents += [parent] * (siblings + 1)
            path.append(parent := len(ids) - 1)
        return HostDraft(ids, parents if siblings else None), path

    def commit(self, draft: HostDraft | None, path: Sequence[int], token: int) -> None:
        """Verify a draft and commit a path of it, then a token."""
        self._target.verify(draft, NO_NOISE)
        self._target.commit(path, token)


def _with_every_number(sequence: _Sequence, most: int) -> Iterator[bool]:
    """Compare chains and trees of up to `most` rows, at several places of their first row."""
    sequence.reach(START)
    alone = sequence.one_by_one(most)
    yield from _chains_agree(sequence, alone, range(2, most + 1), min(most, 12))
    sequence.reach(START)
    for siblings in SIBLINGS:
        for length in range(1, (most - 1) // (siblings + 1) + 1):
            yield _tree_agrees(sequence, alone, START, length, siblings)


def _with_some_numbers(sequence: _Sequence, most: int, end: int) -> Iterator[bool]:
    """Compare chains with some numbers of rows, and the largest trees, around a block's end.

    The numbers are `most`, its half, its quarter and so on, and one more than each.
    """
    start = end - most // 2
    sequence.reach(start)
    alone = sequence.one_by_one(most)
    halves = [most >> times for times in range(most.bit_length() - 1)]
    numbers = sorted({min(half + more, most) for half in halves for more in (0, 1)})
    yield from _chains_agree(sequence, alone, numbers, min(most, 4))
    sequence.reach(start)
    for siblings in SIBLINGS:
        yield _tree_agrees(sequence, alone, start, (most - 1) // (siblings + 1), siblings)


def _chains_agree(
    sequence: _Sequence, alone: Sequence[bytes], numbers: Iterable[int], shifts: int
) -> Iterator[bool]:
    """Compare chains of these numbers of rows, beside wrong tokens, then with a later first row."""
    for rows in numbers:
        right = rows * 2 // 3
        yield sequence.rows(sequence.chain(rows - 1, right))[: right + 1] == alone[: right + 1]
    for first in range(1, shifts):
        sequence.advance()
        yield sequence.rows(sequence.chain(len(alone) - first - 1, len(alone))) == alone[first:]


def _tree_agrees(
    sequence: _Sequence, alone: Sequence[bytes], start: int, length: int, siblings: int
) -> bool:
    """Compare a tree's path with the tokens alone, then the token after the path is committed.

    For a model that follows chains alone the tree is its path.
    """
    draft, path = sequence.tree(length, siblings if sequence.has_trees else 0)
    rows = sequence.rows(draft)
    on_path = [rows[0], *(rows[node + 1] for node in path)]
    sequence.commit(draft, path, sequence.token(start + length))
    after = sequence.rows(None)
    sequence.reach(start)
    return on_path == alone[: length + 1] and after == alone[length + 1 : length + 2]


def _at_blocks(sequence: _Sequence, positions: int) -> Iterator[bool]:
    """Compare NEAR tokens around the end of each block, as a chain and as a tree."""
    for end in range(BLOCK, positions - 4 * NEAR, BLOCK):
        sequence.reach(end - 1)
        alone = sequence.one_by_one(NEAR)
        yield sequence.rows(sequence.chain(NEAR - 1, NEAR)) == alone
        yield _tree_agrees(sequence, alone, end - 1, NEAR - 2, 2)
