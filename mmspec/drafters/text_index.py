"""Finds earlier places of a text's last tokens, in arrays of at most 40 bytes a token.

A place is the index of a token; its context are the tokens before it.  Every table holds the latest
place after each context of one length, and every place links to the one before it in its bucket.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmspec.ground.tokens import NO_TOKEN

CONTEXTS = (4, 2, 1)
"""Tokens in the contexts of each table."""
STEPS = (16, 24, 48)
"""Places that a search visits in each table at most, the latest first, whatever the text is."""
LONGEST = 8
"""The most tokens before a place that are compared."""
REACH, MOST_NEW = 512, 64
"""Latest tokens that are searched where no context is found, and the most places among them."""
BUCKETS = 1024
"""Buckets of a table at first; later at least half as many as tokens."""
NO_PLACE = 0


class _Table:
    """The places after contexts of one length, by the hash of the context."""

    def __init__(self) -> None:
        self._latest = array("i", [NO_PLACE]) * BUCKETS
        self._links = array("i", [NO_PLACE]) * CONTEXTS[0]  # before the first place

    def fill(self, keys: NDArray[np.uint64]) -> None:
        """Add all places of an empty table at once, by their keys."""
        size = len(self._latest)
        while 2 * size <= CONTEXTS[0] + len(keys):
            size *= 2
        buckets = (keys % np.uint64(size)).astype(np.int64)
        order = np.sort(buckets << 32 | np.arange(CONTEXTS[0], CONTEXTS[0] + len(keys)))
        buckets, places = order >> 32, (order & 0xFFFFFFFF).astype(np.int32)
        goes_on = buckets[1:] == buckets[:-1]
        links = np.zeros(CONTEXTS[0] + len(keys), np.int32)
        links[places[1:][goes_on]] = places[:-1][goes_on]
        latest, is_last = np.zeros(size, np.int32), np.ones(len(order), bool)
        is_last[:-1] = ~goes_on
        latest[buckets[is_last]] = places[is_last]
        self._latest, self._links = array("i", latest.tobytes()), array("i", links.tobytes())

    def add(self, place: int, key: int) -> None:
        """Add the next place; an interrupt leaves what `remove` can undo."""
        if place == 2 * len(self._latest):
            self._latest.extend(self._latest)  # both halves link to the places so far
        bucket = key % len(self._latest)
        self._links.append(self._latest[bucket])
        self._latest[bucket] = place

    def remove(self, place: int, key: int) -> None:
        """Undo the last `add`, also one that was interrupted."""
        if place < len(self._links):
            self._latest[key % len(self._latest)] = self._links[place]
            del self._links[place:]
        if place == len(self._latest) > BUCKETS:
            del self._latest[place // 2 :]

    def places(self, key: int, steps: int) -> Iterator[int]:
        """The latest places in a bucket, whatever their contexts are."""
        place, links = self._latest[key % len(self._latest)], self._links
        while place and steps:
            yield place
            place, steps = links[place], steps - 1

    def firsts(self, start: int) -> list[int]:
        """The places from `start` on whose buckets were empty before them, the latest first."""
        is_first = np.array(self._links[start:]) == NO_PLACE
        places: list[int] = (start + np.flatnonzero(is_first))[::-1].tolist()
        return places


class TextIndex:
    """A text of token ids that grows and shrinks at its end; NO_TOKEN parts it."""

    def __init__(self) -> None:
        self.tokens = array("i", [NO_TOKEN]) * CONTEXTS[0]
        self._tables = [_Table() for _ in CONTEXTS]
        self._end = len(self.tokens)

    @classmethod
    def of(cls, tokens: NDArray[np.int32]) -> "TextIndex":
        """An index of many tokens, in a hundredth of the time; `rewind` leaves all of them."""
        index = cls()
        index.tokens.frombytes(tokens.tobytes())
        index._end = len(index.tokens)
        wide = np.frombuffer(index.tokens, np.int32).astype(np.uint64)
        before = [wide[back : len(wide) - CONTEXTS[0] + back] for back in range(CONTEXTS[0])]
        for table, keys in zip(index._tables, _keys(before), strict=True):
            table.fill(keys)
        return index

    @property
    def length(self) -> int:
        """Number of tokens in the text."""
        return self._end - CONTEXTS[0]

    @property
    def context(self) -> Sequence[int]:
        """The last tokens of the text, at most LONGEST, without anything before a NO_TOKEN."""
        last = self.tokens[-LONGEST:].tolist()
        while NO_TOKEN in last:
            del last[: last.index(NO_TOKEN) + 1]
        return last

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens; after an interrupt the length is the old one, and `rewind` tidies up."""
        for token in tokens:
            place, keys = len(self.tokens), _keys(self.tokens[-CONTEXTS[0] :])
            self.tokens.append(token)
            for table, key in zip(self._tables, keys, strict=True):
                table.add(place, key)
        self._end = len(self.tokens)

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} tokens to {length}")
        self._end = length + CONTEXTS[0]
        for place in range(len(self.tokens) - 1, self._end - 1, -1):
            keys = _keys(self.tokens[place - CONTEXTS[0] : place])
            for table, key in zip(self._tables, keys, strict=True):
                table.remove(place, key)
            del self.tokens[place]

    def places(self, context: Sequence[int], above: int = 0) -> tuple[list[list[int]], int]:
        """The latest places whose contexts end as `context`, by the number of tokens that agree.

        If there are none, then places after any token that was new there, with an agreement of 0.
        above: contexts of this many tokens or fewer are not searched.  Also returned is `above` for
        the next text: where longer contexts have enough places, shorter ones would hardly count.
        """
        by_size: list[list[int]] = [[] for _ in range(LONGEST + 1)]
        tokens, most, count = self.tokens, LONGEST + 1, 0
        backwards = list(enumerate(reversed(context), start=1))
        keys = _keys([NO_TOKEN] * CONTEXTS[0] + list(context))
        for size, key, steps, table in zip(CONTEXTS, keys, STEPS, self._tables, strict=True):
            if size <= above:
                break
            tail = backwards[:most]
            for place in table.places(key, steps if len(context) >= size else 0):
                for back, token in tail:
                    if tokens[place - back] != token:
                        back -= 1
                        break
                if size <= back < most:
                    by_size[back].append(place)
                    count += 1
            most = size
            if count >= steps:
                above = size
        if not above and not count:
            start = max(CONTEXTS[0] + 1, len(self.tokens) - REACH)
            by_size[0] = self._tables[-1].firsts(start)[:MOST_NEW]
        return by_size, above


def _keys(tokens: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Hashes of the last tokens, one for each of CONTEXTS; also of arrays of 64 unsigned bits."""
    one = tokens[-1] * 0x9E3779B1
    two = (one ^ tokens[-2]) * 0x85EBCA6B & 0xFFFFFFFFFFF
    four = ((two ^ tokens[-3]) * 0xC2B2AE35 ^ tokens[-4]) * 0x27D4EB2F & 0xFFFFFFFFFFF
    return four >> 13, two >> 13, one >> 13
