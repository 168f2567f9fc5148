"""A layer of Gated DeltaNet.  n rows, H width."""

import mlx.core as mx

from mmspec.decoding.delta_net import TENSORS, DeltaNet, DeltaNetWeights
from mmspec.decoding.delta_states import DeltaMemory
from mmspec.families.decoder import TextConfig
from mmspec_mlx.device.framework import framework
from mmspec_mlx.device.kernels import kernels
from mmspec_mlx.device.weights import Linear, Weights


class DeltaLayer:
    """Gated DeltaNet with its projections."""

    def __init__(self, in_proj: Linear, out_proj: Linear, net: DeltaNet[mx.array]) -> None:
        """in_proj: in_proj_qkv, in_proj_z, in_proj_b and in_proj_a."""
        self._in_proj, self._out_proj, self._net = in_proj, out_proj, net

    @classmethod
    def take(cls, weights: Weights, path: str, config: TextConfig) -> "DeltaLayer":
        """Take the tensors at `path`."""
        if config.delta_net is None:
            raise ValueError("this decoder has no Gated DeltaNet")
        parts = (f"{path}.in_proj_{part}" for part in ("qkv", "z", "b", "a"))
        own = DeltaNetWeights(*(weights.array(f"{path}.{name}") for name in TENSORS))
        functions = framework(kernels(weights.dtype))
        net = DeltaNet(functions, config.delta_net, own, config.rms_norm_eps)
        out_proj = weights.decoding_linear(f"{path}.out_proj")
        return cls(weights.decoding_linear(*parts), out_proj, net)

    def __call__(
        self,
        x: mx.array,
        rotate: object,  # noqa: ARG002
        memory: DeltaMemory[mx.array],
        *_: object,
    ) -> mx.array:
        """Return the output [1, n, H] for x [1, n, H]."""
        return self._out_proj(mx.expand_dims(self._net(self._in_proj(x)[0], memory), 0))
