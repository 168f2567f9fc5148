"""Embeddings of the columns of a row.  n columns, H width."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mmspec.decoding.contents import Row
from mmspec_torch.device.device_io import upload
from mmspec_torch.network.decoder import LanguageModel


def embed(language: LanguageModel, row: Row[Tensor], start: int, stop: int) -> Tensor:
    """Return the embeddings [n, H] of columns, images included; padding gets arbitrary ones."""
    ids = row.ids(start, stop, language.config.vocab_size)
    x = language.embed(upload(ids, torch.int64, language.device))
    row.write_images(x, start, stop)
    return x


def deepstack(
    language: LanguageModel, rows: Sequence[Row[Tensor]], start: int, stop: int
) -> tuple[Tensor, ...]:
    """Return what the first layers add to their outputs, [R * n, H] each; zero but for images.

    Nothing is returned for columns without images, and for families without DeepStack.
    """
    width = language.config.hidden_size
    layers = max(row.image_width(start, stop) for row in rows) // width - 1
    if layers < 1:
        return ()
    x = language.embedding.new_zeros(len(rows), stop - start, layers * width)
    for number, row in enumerate(rows):
        row.write_images(x[number], start, stop, width)
    return torch.split(x.flatten(0, 1), width, dim=1)
