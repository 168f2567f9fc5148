"""A layer of Gated DeltaNet.  n rows, H width."""

from torch import Tensor

from mmspec.decoding.delta_net import TENSORS, DeltaNet, DeltaNetWeights
from mmspec.decoding.delta_states import DeltaMemory
from mmspec.families.decoder import TextConfig
from mmspec_torch.device.framework import framework
from mmspec_torch.device.products import Product
from mmspec_torch.device.weights import Weights


class DeltaLayer:
    """Gated DeltaNet with its projections."""

    def __init__(self, in_proj: Product, out_proj: Product, net: DeltaNet[Tensor]) -> None:
        """in_proj: in_proj_qkv, in_proj_z, in_proj_b and in_proj_a."""
        self._in_proj, self._out_proj, self._net = in_proj, out_proj, net

    @classmethod
    def take(cls, weights: Weights, path: str, config: TextConfig) -> "DeltaLayer":
        """Take the tensors at `path`."""
        if config.delta_net is None:
            raise ValueError("this decoder has no Gated DeltaNet")
        in_proj = weights.product(*(f"{path}.in_proj_{part}" for part in ("qkv", "z", "b", "a")))
        tensors = (weights.take(f"{path}.{name}") for name in TENSORS)
        own = DeltaNetWeights(*tensors)
        net = DeltaNet(framework(own.norm.device), config.delta_net, own, config.rms_norm_eps)
        return cls(in_proj, weights.product(f"{path}.out_proj"), net)

    def __call__(
        self,
        x: Tensor,
        residual: Tensor,
        memory: DeltaMemory[Tensor],
        step: object,  # noqa: ARG002
    ) -> Tensor:
        """Return `residual` plus the output for x [n, H]; may overwrite `residual`."""
        return self._out_proj.added(self._net(self._in_proj(x), memory), residual)
