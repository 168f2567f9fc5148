"""A decoder with its embedding and output head, as sequences use it.

Shape letters: R rows, n columns, V vocabulary, H width.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from mmspec.decoding.contents import Row
from mmspec.decoding.framework import Framework
from mmspec.decoding.stored_states import LayerCaches
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A


class Language(Protocol[A]):
    """A decoder whose layers the backend feeds."""

    config: TextConfig
    framework: Framework[A]
    dtype: Any
    """Type of activations."""

    def new_cache(self, rows: int) -> LayerCaches[A]:
        """An empty cache for `rows` rows."""

    def embed(self, ids: A) -> A:
        """Embeddings [n, H] of token ids [n]; starts computing the ids."""

    def states(self, x: A) -> A:
        """The last norm's output for x [n, H], which the output head reads."""

    def project(self, states: A) -> A:
        """Logits [n, V] of normalised hidden states [n, H]."""


def embed_row(language: Language[A], row: Row[A], start: int, stop: int) -> A:
    """The embeddings [n, H] of columns, images included; padding gets arbitrary ones."""
    ids = row.ids(start, stop, language.config.vocab_size)
    x = language.embed(language.framework.integers(ids))
    row.write_images(x, start, stop)
    return x


def deepstack(language: Language[A], rows: Sequence[Row[A]], start: int, stop: int) -> Sequence[A]:
    """What the first layers add to their outputs, [R, n, H] each; zero but for images.

    Nothing is returned for columns without images, and for families without DeepStack.
    """
    width, framework = language.config.hidden_size, language.framework
    layers = max(row.image_width(start, stop) for row in rows) // width - 1
    if layers < 1:
        return ()
    parts = [framework.zeros((stop - start, layers * width), dtype=language.dtype) for _ in rows]
    for row, part in zip(rows, parts, strict=True):
        row.write_images(part, start, stop, width)
    return framework.split(framework.xp.stack(parts), layers)
