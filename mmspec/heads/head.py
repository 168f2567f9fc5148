"""A loaded head, which drafts beside the targets that it was loaded for."""

from collections.abc import Callable
from typing import Generic

from mmspec.arrays import A
from mmspec.heads.config import HeadConfig
from mmspec.heads.drafter import HeadDrafter
from mmspec.heads.forwards import Forwards, LayeredForwards, Setting, SlottedForwards
from mmspec.heads.modules import Layered, take
from mmspec.heads.outline import Outline
from mmspec.heads.seam import Base, Parts
from mmspec.sampling import Sampling
from mmspec.seam import Target
from mmspec.tree import Tree


class Head(Generic[A]):
    """Implements `mmspec.seam.Head`."""

    def __init__(
        self,
        config: HeadConfig,
        parts: Parts[A],
        base: Callable[[Target], Base[A]],
        image_token_id: int | None,
    ) -> None:
        """Take every tensor of `parts`; base: lets a target keep what a head reads of it."""
        self.config = config
        self._parts = take(parts, config)
        self._base, self._image_token_id = base, image_token_id

    def open_drafter(
        self, target: Target, sampling: Sampling, tree: Tree | None = None
    ) -> HeadDrafter:
        """Start an empty sequence beside `target`, which keeps its hidden states from now on."""
        config, forwards = self.config, self._forwards(Setting(self._base(target), sampling, tree))
        outline = Outline(apart=config.apart, packed=config.queries)
        return HeadDrafter(forwards, outline, self._image_token_id, config.slots)

    def _forwards(self, setting: Setting[A]) -> Forwards[A]:
        if isinstance(self._parts, Layered):
            return LayeredForwards(self._parts, setting)
        return SlottedForwards(self._parts, setting)
