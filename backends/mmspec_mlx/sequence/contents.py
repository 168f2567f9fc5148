"""Embeddings of the columns of a row.  R rows, n columns, H width."""

from collections.abc import Sequence

import mlx.core as mx

from mmspec.decoding.contents import Row
from mmspec_mlx.device import device_io
from mmspec_mlx.network.decoder import LanguageModel


def embed(language: LanguageModel, row: Row[mx.array], start: int, stop: int) -> mx.array:
    """Return the embeddings [n, H] of columns, images included; padding gets arbitrary ones."""
    x = language.embedding.rows(
        device_io.integers(row.ids(start, stop, language.config.vocab_size))
    )
    row.write_images(x, start, stop)
    return x


def deepstack(
    language: LanguageModel, rows: Sequence[Row[mx.array]], start: int, stop: int
) -> Sequence[mx.array]:
    """Return what the first layers add to their outputs, [R, n, H] each; zero but for images.

    Nothing is returned for columns without images, and for families without DeepStack.
    """
    width = language.config.hidden_size
    layers = max(row.image_width(start, stop) for row in rows) // width - 1
    if layers < 1:
        return ()
    parts = [mx.zeros((stop - start, layers * width), language.dtype) for _ in rows]
    for row, part in zip(rows, parts, strict=True):
        row.write_images(part, start, stop, width)
    return list(mx.split(mx.stack(parts), layers, axis=-1))
