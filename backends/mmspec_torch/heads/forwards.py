"""What heads ask of PyTorch; see `mmspec.heads.seam`.

Shape letters: n rows, H width.
"""

from functools import partial
from itertools import count

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.heads.seam import Framework
from mmspec_torch.device import upload
from mmspec_torch.draft import TorchDraft
from mmspec_torch.frontier import Tail
from mmspec_torch.growth import grown
from mmspec_torch.llama import Decoder, chunks


def framework(device: torch.device) -> Framework[Tensor]:
    """PyTorch's calls on a device."""
    return Framework(
        xp=xp,
        concat=torch.cat,
        pick=lambda rows, places: rows.index_select(0, places),
        silu=F.silu,
        softmax=partial(torch.softmax, dim=-1),
        probabilities=lambda logits: torch.softmax(logits.float(), dim=-1),
        floats=partial(upload, dtype=torch.float32, device=device),
        chained=TorchDraft,
        grown=partial(grown, device=device),
        inference=torch.inference_mode,
    )


class CachedLayer:
    """Implements `mmspec.heads.seam.Layer`."""

    def __init__(self, decoder: Decoder) -> None:
        """Start with an empty cache."""
        self._decoder = decoder
        self._cache = decoder.new_cache(rows=1)

    def append(self, x: Tensor, start: int) -> Tensor:
        """Feed rows [n, H], as many at once as fit the memory."""
        last = x
        for low, high in chunks(0, len(x)):
            last = self._decoder.append(x[low:high], self._cache, start + low)
        return last[-1:]

    def settle(self) -> None:
        """Nothing waits to be computed."""

    def tail(self, columns: int) -> Tail:
        """Start a draft; every node of a level is at one position."""
        rotary = self._decoder.rotary
        angles = (rotary.run(at, at + 1) for at in count(columns))
        return Tail(self._decoder, self._cache, columns, angles)
