"""The decoder of Llama and Qwen over plain weight tensors, for a few rows at a time.

Projections of one input are fused, and keys and values are written together: for few rows the
cost is the number of operations.

Shape letters: R rows, n columns fed, C visible columns, H width, V vocabulary.
Activations are [R * n, H].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.checkpoints.manifest import EMBEDDING, LM_HEAD
from mmspec.decoding.delta_net import new_states
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import Enter, Positions, behind_norm
from mmspec_torch.device.framework import framework
from mmspec_torch.device.norms import Norm, rms_norm
from mmspec_torch.device.products import Product, product
from mmspec_torch.device.weights import Weights
from mmspec_torch.network import cache
from mmspec_torch.network.attention import Attention, Step, causal_mask
from mmspec_torch.network.delta_layer import DeltaLayer
from mmspec_torch.network.rotary import Angles, Rotary


class MLP:
    """SwiGLU; gate_proj and up_proj are one product."""

    def __init__(self, gate_up_proj: Product, down_proj: Product) -> None:
        self.gate_up_proj, self.down_proj = gate_up_proj, down_proj

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return `residual` plus the MLP's output for x, both [n, H]; may overwrite `residual`."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj.added(F.silu(gate).mul_(up), residual)


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Attention and MLP, each behind its norm."""

    enter: Enter[Tensor]
    self_attn: Any
    """`Attention` or `DeltaLayer`."""
    post_attention_layernorm: Norm
    mlp: MLP

    @classmethod
    def take(
        cls,
        weights: Weights,
        path: str,
        config: TextConfig,
        *,
        enter: Enter[Tensor] | None = None,
        is_recurrent: bool = False,
    ) -> "DecoderLayer":
        """Take the tensors of the layer at `path`.

        enter: what attention reads of the input and is added to; None takes the input's norm.
        """

        def norm(name: str) -> Norm:
            return rms_norm(weights.take(f"{path}.{name}.weight"), config.rms_norm_eps)

        def product(*names: str) -> Product:
            return weights.product(*(f"{path}.{name}" for name in names))

        mixer: Attention | DeltaLayer
        if is_recurrent:
            mixer = DeltaLayer.take(weights, f"{path}.linear_attn", config)
        else:
            mixer = Attention.take(weights, f"{path}.self_attn", config)
        gate_up_proj = product("mlp.gate_proj", "mlp.up_proj")
        return cls(
            enter or behind_norm(norm("input_layernorm")),
            mixer,
            norm("post_attention_layernorm"),
            MLP(gate_up_proj, product("mlp.down_proj")),
        )

    def __call__(self, x: Tensor, memory: cache.LayerMemory, step: Step) -> Tensor:
        """Feed x [R * n, H], which may be overwritten; returns the layer's output."""
        x = self.self_attn(*self.enter(x), memory, step)
        return self.mlp(self.post_attention_layernorm(x), x)


class Decoder:
    """The decoder layers with their rotary positions, without embedding, last norm and head."""

    def __init__(
        self,
        layers: Sequence[DecoderLayer],
        config: TextConfig,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.config, self.device, self.dtype = config, device, dtype
        self.framework = framework(device)
        width = config.rotary_dim or config.head_dim
        self.rotary = Rotary(
            width, config.rope_theta, device, dtype, config.rotary_axes, config.rotary_scaling
        )
        self.layers = layers

    def new_cache(self, rows: int) -> cache.Cache:
        """Return an empty cache for `rows` rows."""
        text, states = self.config, None
        if text.delta_net:
            if rows > 1:
                raise ValueError(f"a recurrent model has one row, not {rows}")
            states = new_states(self.framework, text.delta_net, self.dtype)
        attention = sum(isinstance(layer.self_attn, Attention) for layer in self.layers)
        sizes = attention, rows, text.num_key_value_heads, text.head_dim
        return cache.Cache(*sizes, self.device, self.dtype, states)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """Feed embeddings [R * n, H], which may be overwritten; returns the last layer's output.

        The outputs of the step's captured layers are put beside it, [R * n, (1 + c) H].
        """
        added, captured = chain(step.deepstack, repeat(None)), []
        layers = zip(self.layers, step.layers, added, strict=False)
        for before, (layer, memory, extra) in enumerate(layers):
            if before in step.captured:
                captured.append(x.clone())
            x = layer(x, memory, step)
            if extra is not None:
                x += extra
        if len(self.layers) in step.captured:
            captured.append(x)
        return torch.cat((x, *captured), dim=-1) if captured else x

    def append(
        self, x: Tensor, memory: cache.Cache, start: int, positions: Positions | None = None
    ) -> Tensor:
        """Feed one row's embeddings [n, H] to columns `start` onwards.

        x may be overwritten.  positions: rotary positions [3, n]; None if they are the columns.
        Returns the last layer's output [n, H].
        """
        end = start + len(x)
        if positions is None:
            angles = self.rotary.run(start, end)
        else:
            cos, sin = self.rotary.planes(positions[None])
            angles = cos[0], sin[0]
        return self.follow(x, memory, start, angles)

    def follow(
        self,
        x: Tensor,
        memory: cache.Cache,
        start: int,
        angles: Angles,
        padding: Tensor | None = None,
        deepstack: Sequence[Tensor] = (),
        captured: Sequence[int] = (),
    ) -> Tensor:
        """Feed embeddings [R * n, H] to columns `start` onwards, with a causal mask.

        x may be overwritten.  padding: mask [R, 1, 1, C or more] that hides it; None if none.
        deepstack, captured: see `Step`.  Returns what `forward` does.
        """
        count = len(x) // memory.rows
        end = start + count
        mask = None if padding is None else padding[..., :end]
        if count > 1 and (start or mask is not None):
            order = causal_mask(start, end, x)
            mask = order if mask is None else mask + order
        causal, layers = count > 1 and mask is None, memory.layers(start, end)
        step = Step(angles, layers, mask, causal, deepstack=deepstack, captured=captured)
        return self.forward(x, step)


class LanguageModel(Decoder):
    """A decoder with its embedding, last norm and output head."""

    def __init__(
        self, weights: Weights, config: TextConfig, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.embedding = weights.take(EMBEDDING)
        paths = (f"language_model.layers.{index}" for index in range(config.num_hidden_layers))
        recurrent = config.delta_net.layers if config.delta_net else ()
        layers = [
            DecoderLayer.take(weights, path, config, is_recurrent=layer in recurrent)
            for layer, path in enumerate(paths)
        ]
        super().__init__(layers, config, device, dtype)
        self._norm = rms_norm(weights.take("language_model.norm.weight"), config.rms_norm_eps)
        # Never quantized: it is read once per token, and rounding would change close decisions.
        tied = config.tie_word_embeddings
        self._head = product(self.embedding if tied else weights.take(LM_HEAD))

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings [n, H] of ids [n]."""
        return F.embedding(ids, self.embedding)

    def states(self, x: Tensor) -> Tensor:
        """Return the last norm's output for x [n, H], which the output head reads."""
        return self._norm(x)

    def project(self, states: Tensor) -> Tensor:
        """Return the logits [n, V] of hidden states [n, H]."""
        return self._head(states)

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits [n, V] of outputs [n, H]."""
        return self._head(self._norm(x))
