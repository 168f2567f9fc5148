"""Heads computed the long way: transformers' target and layer, every slot anew, no cache."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen2_5_vl
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3_vl

from mmspec.decoding.draft import Plan
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.drafters.heads.modules import Eagle3Modules
from support import scripted
from support import sequence_helpers as helpers
from support.transformers_oracle import Columns, decoder_layer, outputs, turns
from support.vispec_oracle import ViSpec

PATCHES = 16
"""Columns of an image of the tiny LLaVAs."""
MROPES = {
    False: (qwen2_5_vl.Qwen2_5_VLTextConfig, qwen2_5_vl.Qwen2_5_VLRotaryEmbedding),
    True: (qwen3_vl.Qwen3VLTextConfig, qwen3_vl.Qwen3VLTextRotaryEmbedding),
}
"""Transformers' classes by whether time, row and column take turns."""


def image_numbers(tokens: Sequence[int], image_id: int) -> list[int]:
    """For each column the number of its image, -1 for text; LLaVA's images may touch."""
    visual = np.array(tokens) == image_id
    touching = image_id == helpers.IMAGE
    numbers = (np.cumsum(visual) - 1) // PATCHES if touching else np.cumsum(~visual)
    return np.where(visual, numbers, -1).tolist()


class Reference:
    """One head over one prompt of LLaVA, or of the target that has another image token."""

    def __init__(
        self,
        directory: Path,
        target: Any,
        tokens: Sequence[int],
        columns: Columns,
        image_id: int = helpers.IMAGE,
    ) -> None:
        self.config = {"kind": "vispec"} | json.loads((directory / "config.json").read_text())
        self.tensors = load_file(directory / "model.safetensors")
        self.target, self.columns, self.image_id = target, columns, image_id
        self.embeddings, *_, last = columns.layers
        with torch.inference_mode():  # the last token is fed to nothing yet
            self.states = target.model.language_model.norm(last)[:-1]
        self.image = image_numbers(tokens, image_id)
        layered = self.config["kind"] in ("eagle", "eagle3", "msd", "flash")
        self.layer = decoder_layer(self.config, self.tensors) if layered else None

    @torch.inference_mode()
    def says(self, drafted: list[int]) -> Tensor:
        """Probabilities [V] of the token after the drafted ones."""
        if self.config["kind"] == "eagle3":
            return self._eagle3(drafted)
        feature = getattr(self, f"_{self.config['kind']}")(drafted)
        return self.target.lm_head(feature).softmax(-1)

    def _eagle3(self, drafted: list[int]) -> Tensor:
        """Rows of embedding and state; after a drafted token the state is the layer's output."""
        tensors, places = self.tensors, self.config["eagle_aux_hidden_state_layer_ids"]
        read = torch.cat([self.columns.layers[at][:-1] for at in places], dim=-1)
        pairs = zip(self._seen_embeddings(), read @ tensors["fc.weight"].T, strict=True)
        rows = [torch.cat(pair) for pair in pairs]
        output = self._eagle3_layer(rows)[-1]
        for token in drafted:
            rows.append(torch.cat((self._embedded(token), output)))
            output = self._eagle3_layer(rows)[-1]
        logits = tensors["lm_head.weight"] @ self._normed("norm", output)
        whole = torch.full((self.config["vocab_size"],), float("-inf"))
        count = torch.arange(len(logits))
        whole[count + tensors.get("d2t", torch.zeros_like(count))] = logits
        return whole.softmax(-1)

    def _vispec(self, drafted: list[int]) -> Tensor:
        head = ViSpec(self.config, self.tensors, self.embeddings, self.states, self.image)
        return head.feature(self.target.get_input_embeddings().weight[drafted])

    def _seen_embeddings(self) -> list[Tensor]:
        """The embeddings after each slot; images' are their token's."""
        token = self._embedded(self.image_id)
        pairs = zip(self.embeddings, self.image, strict=True)
        return [own if number < 0 else token for own, number in pairs][1:]

    def _normed(self, path: str, x: Tensor) -> Tensor:
        size = (x**2).mean(-1, keepdim=True) + self.config["rms_norm_eps"]
        return x / size.sqrt() * self.tensors[f"{path}.weight"]

    def _eagle3_layer(self, rows: list[Tensor]) -> Tensor:
        """The outputs [n, H] of rows [n, 2 H] by transformers' modules, which read both halves."""
        embeddings, states = torch.stack(rows).chunk(2, dim=-1)
        normed = self._normed("layers.0.hidden_norm", states)
        both = torch.cat((self._normed("layers.0.input_layernorm", embeddings), normed), dim=-1)
        mask = torch.full((len(rows), len(rows)), float("-inf")).triu(1)[None, None]
        attend, angles = self.layer.self_attn, self._angles(len(rows))
        x = states + attend(both[None], position_embeddings=angles, attention_mask=mask)[0][0]
        return x + self.layer.mlp(self.layer.post_attention_layernorm(x))

    def _angles(self, count: int) -> Any:
        """Cosines and sines of the first `count` slots: slot j stands where column j does."""
        scaling = self.config.get("rope_scaling")
        if not scaling:
            return turns(self.layer, range(count))
        known = self.columns.positions
        later = torch.arange(count) + known.max() + 1
        positions = torch.cat((known, later.expand(3, -1)), dim=1)[:, :count]
        rope = {"rope_type": "default", "rope_theta": self.config["rope_theta"]}
        rope |= {"mrope_section": scaling["mrope_section"]}
        names = ("hidden_size", "num_attention_heads", "max_position_embeddings")
        text, embedding = MROPES[bool(scaling.get("mrope_interleaved"))]
        sizes = {name: self.config[name] for name in names}
        size = sizes["hidden_size"] // sizes["num_attention_heads"]
        config = text(**sizes, head_dim=size, rope_parameters=rope)
        return embedding(config)(torch.zeros(1), positions[:, None])

    def _eagle(self, drafted: list[int]) -> Tensor:
        rows = self._rows()
        for token in drafted:
            rows.append(self._fused(self._embedded(token), self._run(rows)[-1]))
        return self._run(rows)[-1]

    _msd = _eagle

    def _flash(self, drafted: list[int]) -> Tensor:
        last = self._run(self._rows())[-1]
        return last + F.silu(self._linear(f"slots.{len(drafted)}", last))

    def _medusa(self, drafted: list[int]) -> Tensor:
        state = self._seen()
        return state + F.silu(self._linear(f"heads.{len(drafted)}.linear", state))

    def _hydra(self, drafted: list[int]) -> Tensor:
        state, path = self._seen(), f"heads.{len(drafted)}"
        known = [state, self.embeddings[-1], *(self._embedded(token) for token in drafted)]
        inner = F.silu(self._linear(f"{path}.linear_1", torch.cat(known)))
        return state + self._linear(f"{path}.linear_2", inner)

    def _seen(self) -> Tensor:
        """The last hidden state and what the head reads off the images."""
        state, images = self.states[-1], self.embeddings[np.array(self.image) >= 0]
        if self.config.get("vision", "none") == "none" or not len(images):
            return state
        return state + self.tensors["vision.weight"] @ images.mean(0)

    def _rows(self) -> list[Tensor]:
        """What the layer is fed, slot by slot."""
        rows, kind = [], self.config["kind"]
        for slot, state in enumerate(self.states):
            before, number = self.image[slot : slot + 2]
            if number < 0 or kind == "eagle":
                rows.append(self._fused(self.embeddings[slot + 1], state))
            elif kind == "msd":
                rows.append(self.embeddings[slot + 1])
            elif not self.config["queries"]:
                rows.append(self.states[slot + 1])
            elif number != before:
                rows += self._latents(self.states[np.array(self.image[:-1]) == number])
        return rows

    def _latents(self, states: Tensor) -> Tensor:
        queries, keys = self.tensors["compressor.queries"], self._normed("compressor.norm", states)
        return (queries @ keys.T / states.shape[-1] ** 0.5).softmax(-1) @ states

    def _fused(self, embedding: Tensor, state: Tensor) -> Tensor:
        return F.linear(
            torch.cat((embedding, state)), self.tensors["fc.weight"], self.tensors.get("fc.bias")
        )

    def _linear(self, path: str, x: Tensor) -> Tensor:
        return self.tensors[f"{path}.weight"] @ x + self.tensors[f"{path}.bias"]

    def _embedded(self, token: int) -> Tensor:
        return self.target.get_input_embeddings().weight[token]

    def _run(self, rows: list[Tensor]) -> Tensor:
        return outputs(self.layer, rows, range(len(rows)))


def check_chain(target: Any, drafter: Any, reference: Reference) -> None:
    """Hold a drawn chain of three to the head's distributions, and to the noise that chose it."""
    modules, rows, noise = drafter._forwards._parts, [], Noise(1, target.length)
    owner = modules if isinstance(modules, Eagle3Modules) else target
    project = owner.project

    def recorded(states: Any) -> Any:
        logits = project(states)
        rows.extend(logits)
        return logits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, "project", recorded)
        ids = drafter.draft(Plan(3), noise).ids.tolist()
    logits = np.array([row.tolist() for row in rows[-3:]], np.float32)
    for place, row in enumerate(logits):
        q = np.exp(row - row.max())
        np.testing.assert_allclose(q / q.sum(), reference.says(ids[:place]), atol=1e-4)
    assert ids == HOST.sampler(Sampling(1.0)).tokens(logits, HOST.keys(noise, 3)).tolist()


def eagle2(reference: Reference, width: int, nodes: int, depth: int) -> set[tuple[int, ...]]:
    """The paths of a dynamic tree, grown path by path (EAGLE-2, section 4)."""
    frontier: dict[tuple[int, ...], float] = {(): 1.0}
    every: dict[tuple[int, ...], float] = {}
    for _ in range(depth):
        level = {}
        for path, chance in frontier.items():
            p = np.array(reference.says(list(path)).tolist())
            likeliest = np.argsort(-p, kind="stable")[:width].tolist()
            level |= {(*path, token): chance * p[token] for token in likeliest}
        every |= level
        frontier = dict(sorted(level.items(), key=lambda item: -item[1])[:width])
    return {path for path, _ in sorted(every.items(), key=lambda item: -item[1])[:nodes]}


def paths(draft: Any) -> set[tuple[int, ...]]:
    """Every node of a tree by the tokens that lead to it."""
    return {*map(tuple, scripted.paths(draft.ids.tolist(), draft.parents.tolist()))}
