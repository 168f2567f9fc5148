"""A loaded head, which opens drafters beside targets."""

from typing import Any, Generic

from mmspec.checkpoints.head_config import HeadConfig
from mmspec.decoding.arrays import A
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.drafters.heads.backend_interface import Parts
from mmspec.drafters.heads.drafter import HeadDrafter
from mmspec.drafters.heads.forwards import Forwards, LayeredForwards, SlottedForwards
from mmspec.drafters.heads.modules import Layered, Slotted
from mmspec.drafters.heads.packing import Outline
from mmspec.seam import Target


class Head(Generic[A]):
    """Implements `mmspec.seam.Head`."""

    def __init__(self, config: HeadConfig, parts: Parts[A]) -> None:
        """parts: the head's tensors, all of which are read."""
        self.config = config
        self._parts = (
            Layered(parts, config, config.layer) if config.layer else Slotted(parts, config)
        )

    def open_drafter(
        self, target: Target, sampling: Sampling, tree: Tree | None = None
    ) -> HeadDrafter:
        """Open an empty sequence beside `target`, which keeps its hidden states from now on."""
        parts, setting = self._parts, (target.hidden_states(), sampling, tree)
        forwards: Forwards[Any, A] = (
            LayeredForwards(parts, *setting)
            if isinstance(parts, Layered)
            else SlottedForwards(parts, *setting)
        )
        outline = Outline(apart=self.config.apart, packed=self.config.queries)
        return HeadDrafter(forwards, outline, self.config.slots)
