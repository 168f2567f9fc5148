"""PyTorch's operations for predictive heads; see `mmspec.drafters.heads.backend_interface`.

Shape letters: n rows, H width.
"""

from functools import partial
from itertools import count

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.drafters.heads.backend_interface import Framework
from mmspec_torch.network.llama import Decoder, chunks
from mmspec_torch.sequence.draft import TorchDraft
from mmspec_torch.sequence.draft_tail import TorchDraftTail
from mmspec_torch.sequence.sampling import keys, sampler
from mmspec_torch.sequence.tree_ops import tree_draft


def framework(device: torch.device) -> Framework[Tensor]:
    """Return PyTorch's calls on a device as a `Framework`."""
    return Framework(
        xp=xp,
        concat=torch.cat,
        pick=lambda rows, places: rows.index_select(0, places),
        silu=F.silu,
        softmax=partial(torch.softmax, dim=-1),
        sampler=partial(sampler, device=device),
        keys=partial(keys, device=device),
        chain_draft=TorchDraft,
        tree_draft=tree_draft,
        inference=torch.inference_mode,
    )


class CachedLayer:
    """Implements `mmspec.drafters.heads.backend_interface.Layer`."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._cache = decoder.new_cache(rows=1)

    def append(self, x: Tensor, start: int) -> Tensor:
        """Feed rows [n, H] in chunks; returns the last output [1, H]."""
        last = x
        for low, high in chunks(0, len(x)):
            last = self._decoder.append(x[low:high], self._cache, start + low)
        return last[-1:]

    def settle(self) -> None:
        """Do nothing: PyTorch computes without being asked."""

    def tail(self, columns: int) -> TorchDraftTail:
        """Open a draft tail; all nodes of a level share a position."""
        rotary = self._decoder.rotary
        angles = (rotary.run(at, at + 1) for at in count(columns))
        return TorchDraftTail(self._decoder, self._cache, columns, angles)
