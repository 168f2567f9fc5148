"""Keeps decoded pictures: a stateless request sends those of earlier turns again."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from mmspec.prompt.images import Picture


class PictureCache:
    """Pictures by what they are decoded from; the least recently used leave."""

    def __init__(self, size: int) -> None:
        """size: the most bytes of all pixels."""
        self._size = size
        self._pictures: OrderedDict[bytes, Picture] = OrderedDict()

    def get(self, content: bytes, decode: Callable[[bytes], Picture]) -> Picture:
        """The picture of a file's content, in any encoding, decoded if it is not here."""
        key = sha256(content).digest()
        picture = self._pictures.pop(key, None) or decode(content)
        self._pictures[key] = picture
        while sum(map(_bytes, self._pictures.values())) > self._size:
            self._pictures.popitem(last=False)
        return picture


def _bytes(picture: Picture) -> int:
    return 3 * picture.image.width * picture.image.height
