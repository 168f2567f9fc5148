"""A loaded head, which opens drafters beside targets."""

from typing import Generic

from mmspec.checkpoints.head_config import HeadConfig
from mmspec.decoding.arrays import A
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.drafters.heads.backend_interface import Parts
from mmspec.drafters.heads.drafter import HeadDrafter
from mmspec.drafters.heads.forwards import Forwards, LayeredForwards, Setting, SlottedForwards
from mmspec.drafters.heads.modules import Layered, take
from mmspec.drafters.heads.packing import Outline
from mmspec.seam import Target


class Head(Generic[A]):
    """Implements `mmspec.seam.Head`."""

    def __init__(self, config: HeadConfig, parts: Parts[A]) -> None:
        """parts: the head's tensors, all of which are read."""
        self.config = config
        self._parts = take(parts, config)

    def open_drafter(
        self, target: Target, sampling: Sampling, tree: Tree | None = None
    ) -> HeadDrafter:
        """Open an empty sequence beside `target`, which keeps its hidden states from now on."""
        config, setting = self.config, Setting(target.hidden_states(), sampling, tree)
        outline = Outline(apart=config.apart, packed=config.queries)
        return HeadDrafter(self._forwards(setting), outline, config.slots)

    def _forwards(self, setting: Setting[A]) -> Forwards[A]:
        if isinstance(self._parts, Layered):
            return LayeredForwards(self._parts, setting)
        return SlottedForwards(self._parts, setting)
