"""Embeddings of the columns of a row.  n columns, H width."""

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
