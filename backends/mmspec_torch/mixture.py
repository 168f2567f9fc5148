"""From the outputs of all branches to the next token: what they say together.

Shape letters: R branches, k drafted tokens, w nodes of a tree's level, H width, V vocabulary of the
target.
"""

from collections.abc import Sequence

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec import maths
from mmspec.sampling import Sampling
from mmspec_torch.draft import Choice
from mmspec_torch.llama import Llama


class Mixture:
    """averages the branches' probabilities (IbED, section 3.1) and chooses from the average."""

    def __init__(self, llama: Llama, sampling: Sampling, branches: int, vocabulary: int) -> None:
        """vocabulary: V; tokens that only the draft has are left out."""
        own = llama.config.vocab_size
        self._llama, self._sampling, self._branches = llama, sampling, branches
        self._shared = min(vocabulary, own)
        self._missing = vocabulary - self._shared
        self._cuts = own > self._shared
        self._takes_best = sampling.greedy and branches == 1

    def next(self, last: Tensor, blend: Tensor, draw: Tensor | None) -> Choice:
        """The token after outputs [R, H], mixed by weights [R]; drawn at draw [1] or the argmax."""
        if self._takes_best:
            return Choice(self._llama.best(last, self._shared))
        rows = self._said(last)
        mixture = maths.mix(torch, blend, rows)  # the array API's checks cost more than it does
        if self._sampling.greedy:
            return Choice(mixture.argmax(dim=-1, keepdim=True), None, rows)
        q = maths.warp(xp, mixture, self._sampling)
        return Choice(maths.draw(xp, q.unsqueeze(0), draw), q, rows)

    def of_nodes(self, blend: Tensor, last: Tensor) -> Tensor:
        """What the branches together say [w, V of both] at outputs [R * w, H]."""
        said = self._said(last)
        if self._branches == 1:
            return said
        mixed: Tensor = maths.mix(torch, blend, said.view(self._branches, -1))
        return mixed.view(len(last) // self._branches, -1)

    def stacked(self, masses: Sequence[Tensor | None]) -> Tensor | None:
        """Distributions [k, ..., V] of k tokens, or none where none was drawn from any."""
        drawn = [q for q in masses if q is not None]
        return self.padded(torch.stack(drawn)) if drawn else None

    def padded(self, masses: Tensor) -> Tensor:
        """Distributions [..., V]; tokens that the draft does not have get nothing."""
        return F.pad(masses, (0, self._missing)) if self._missing else masses

    def _said(self, last: Tensor) -> Tensor:
        """The probabilities [n, V of both] at outputs [n, H]."""
        logits = self._llama.logits(last)
        shared = logits[:, : self._shared] if self._cuts else logits
        return torch.softmax(shared, dim=-1, dtype=torch.float32)
