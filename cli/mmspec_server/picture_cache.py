"""Keeps decoded pictures: a stateless request sends those of earlier turns again."""

from collections.abc import Callable

from mmspec.prompt.images import Picture


class PictureCache:
    """Pictures with what they were decoded from; the least recently used leave."""

    def __init__(self, size: int) -> None:
        """size: the most bytes of all contents and pixels."""
        self._size = size
        self._pairs: list[tuple[bytes, Picture]] = []

    def get(self, content: bytes, decode: Callable[[bytes], Picture]) -> Picture:
        """The picture of a file's content, in any encoding, decoded if it is not here."""
        # A few comparisons cost less than one digest of megabytes.
        places = (place for place, pair in enumerate(self._pairs) if pair[0] == content)
        place = next(places, None)
        pair = (content, decode(content)) if place is None else self._pairs.pop(place)
        self._pairs.append(pair)
        while sum(map(_bytes, self._pairs)) > self._size:
            del self._pairs[0]
        return pair[1]


def _bytes(pair: tuple[bytes, Picture]) -> int:
    content, picture = pair
    return len(content) + 3 * picture.image.width * picture.image.height
