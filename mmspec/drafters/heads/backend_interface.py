"""The interface that heads need of a backend besides `Framework`: a cached layer, and tensors.

`mmspec.drafters.heads.modules`, `expanders` and `forwards` use it and serve every backend.

Shape letters: n rows, B block rows, C columns that block rows see, H width.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mmspec.decoding.layers import LayerTensors
from mmspec.drafters.heads.cached_layer import CachedLayer
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A, Enter, Positions


class Sight(NamedTuple):
    """The columns that a block's rows see in one layer: of the context, then the block's own."""

    first: int
    """The first column that any row sees."""
    visible: NDArray[np.bool_] | None
    """[B, C] row by column from `first` on; None if every row sees all of them."""


class InjectedLayers(Protocol[A]):
    """Decoder layers with a cache of context: rows whose keys and values every layer has."""

    def remember(self, context: A, start: int, positions: Positions) -> None:
        """Write context rows [n, H], at rotary positions [3, n], to columns `start` on.

        A layer's keys and values are its projections of the rows themselves.
        """

    def settle(self) -> None:
        """Start computing the context, so that lazily evaluated work does not pile up."""

    def block(
        self, x: A, context: A, start: int, positions: Positions, sights: Sequence[Sight]
    ) -> A:
        """Outputs [B, H] of block rows x, which see context and block as each layer's sight says.

        Writes context rows [n, H] to columns `start` on, then the block's, which nobody keeps.
        positions: rotary positions [3, n + B].  x may be overwritten.
        """


class Parts(LayerTensors[A], Protocol[A]):
    """A head's tensors by their paths in `mmspec.checkpoints.head_manifest`."""

    def layer(self, text: TextConfig, enter: Enter[A]) -> Callable[[], CachedLayer[A]]:
        """Function that opens the decoder layer with an empty cache.

        enter: what its attention reads of the input, and what is added to the attention's output.
        """

    def injected(self, text: TextConfig) -> Callable[[], InjectedLayers[A]]:
        """Function that opens the decoder layers, as many as `text` has, with an empty cache."""
