"""A loaded head, which opens drafters beside targets."""

from collections.abc import Callable, Sequence
from typing import Any, Generic

from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.head_config import HeadConfig
from mmspec.checkpoints.mtp import KIND
from mmspec.decoding.contract import Target
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.drafters.heads import forwards, modules
from mmspec.drafters.heads.backend_interface import Parts
from mmspec.drafters.heads.block import BlockForwards, BlockModules
from mmspec.drafters.heads.drafter import HeadDrafter
from mmspec.drafters.heads.packing import Outline
from mmspec.ground.arrays import A


class PredictiveHead(Generic[A]):
    """Implements `mmspec.decoding.contract.Head`."""

    def __init__(
        self,
        config: HeadConfig,
        parts: Parts[A],
        target: ModelConfig,
        draft_ids: Sequence[int] | None = None,
    ) -> None:
        """parts: the head's tensors, all of which are read.  draft_ids: see `read_draft_ids`."""
        self.config = config
        self._layers = config.captured_layers(target)
        image_id = target.image_id or 0
        self._modules, self._forwards = _modules(config, parts, image_id, draft_ids)

    def open_drafter(
        self, target: Target, sampling: Sampling, tree: Tree | None = None
    ) -> HeadDrafter:
        """Open an empty sequence beside `target`, which keeps its hidden states from now on."""
        base, config = target.hidden_states(self._layers), self.config
        computation = self._forwards(self._modules, base, sampling, tree)
        outline = Outline(config.apart, config.image_rows, in_place=config.kind == "vispec")
        return HeadDrafter(computation, outline, config.slots, config.positions)


def _modules(
    config: HeadConfig, parts: Parts[A], image_id: int, draft_ids: Sequence[int] | None
) -> tuple[object, Callable[..., forwards.HeadForwards[Any, A]]]:
    """The modules of the head's kind, and what opens their forwards beside a target."""
    if config.layer is None:
        return modules.SlotModules(parts, config), forwards.SlotForwards
    if config.block:
        return BlockModules(parts, config.block, config.layer, draft_ids), BlockForwards
    if config.eagle3:
        settings = config.eagle3, config.layer, draft_ids, image_id
        return modules.Eagle3Modules(parts, *settings), forwards.Eagle3Forwards
    if config.kind == KIND:
        return modules.MtpModules(parts, config, config.layer), forwards.MtpForwards
    if config.kind == "vispec":
        return modules.ViSpecModules(parts, config, config.layer), forwards.ViSpecForwards
    return modules.LayerModules(parts, config, config.layer), forwards.LayerForwards
