"""Embeddings of the columns of a row.  n columns, H width."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mmspec.decoding.contents import Row
from mmspec_torch.device_io import upload
from mmspec_torch.network.llama import Llama


def embed(llama: Llama, row: Row[Tensor], start: int, stop: int) -> Tensor:
    """Return the embeddings [n, H] of columns, images included; padding gets arbitrary ones."""
    ids = row.ids(start, stop, llama.config.vocab_size)
    x = llama.embed(upload(ids, torch.int64, llama.device))
    row.write_images(x, start, stop)
    return x


def deepstack(
    llama: Llama, rows: Sequence[Row[Tensor]], start: int, stop: int
) -> tuple[Tensor, ...]:
    """Return what the first layers add to their outputs, [R * n, H] each; zero but for images.

    Nothing is returned for columns without images, and for families without DeepStack.
    """
    width = llama.config.hidden_size
    layers = max(row.image_width(start, stop) for row in rows) // width - 1
    if layers < 1:
        return ()
    x = llama.embedding.new_zeros(len(rows), stop - start, layers * width)
    for number, row in enumerate(rows):
        row.write_images(x[number], start, stop, width)
    return torch.split(x.flatten(0, 1), width, dim=1)
