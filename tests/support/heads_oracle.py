"""Heads computed the long way: transformers' target and layer, every slot anew, no cache."""

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from support import scripted
from support import sequence_helpers as helpers
from support.transformers_oracle import decoder_layer, outputs, turns
from support.vispec_oracle import ViSpec


def layered_columns(target: Any, tokens: list[int], pixels: Any) -> tuple[Tensor, Tensor, Tensor]:
    """A prompt's embeddings, normalised hidden states and outputs of all layers side by side.

    As transformers has them [n, H] and [n, (layers + 1) H], the embedding's first.
    """
    caught: dict[str, Tensor] = {}
    decoder = target.model.language_model

    def catch(module: Any, given: Any, named: dict[str, Any], output: Any) -> None:
        caught["embeddings"] = named["inputs_embeds"][0]
        caught["states"] = output.last_hidden_state[0]

    def catch_last(module: Any, given: Any) -> None:
        caught["last"] = given[0][0]

    hooks = [
        decoder.register_forward_hook(catch, with_kwargs=True),
        decoder.norm.register_forward_pre_hook(catch_last),
    ]
    with torch.inference_mode():
        told = target(
            input_ids=torch.tensor([tokens]), pixel_values=pixels, output_hidden_states=True
        )
    for hook in hooks:
        hook.remove()
    before = [states[0] for states in told.hidden_states[:-1]]
    return caught["embeddings"], caught["states"], torch.cat((*before, caught["last"]), dim=-1)


class Reference:
    """One head over one prompt."""

    def __init__(self, directory: Path, target: Any, tokens: list[int], pixels: Any) -> None:
        self.config = json.loads((directory / "config.json").read_text())
        self.tensors = load_file(directory / "model.safetensors")
        self.target, self.image_id, self.tokens = target, helpers.IMAGE, tokens
        self.embeddings, states, self.layers = layered_columns(target, tokens, pixels)
        self.states = states[:-1]  # the last token is fed to nothing yet
        self.image = [token == helpers.IMAGE for token in tokens]
        if pixels is None:
            self.image = [False] * len(tokens)
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
        tensors, width = self.tensors, self.config["hidden_size"]
        places = self.config["eagle_aux_hidden_state_layer_ids"]
        chosen = [self.layers[:-1, at * width :][:, :width] for at in places]
        if self.config.get("fc_norm"):
            names = [f"fc_norm.{index}" for index in range(len(chosen))]
            chosen = [self._normed(name, x) for name, x in zip(names, chosen, strict=True)]
        states = torch.cat(chosen, dim=-1)
        if self.config.get("norm_before_fc"):
            states = self._normed("input_norm", states)
        rows = [
            torch.cat(pair)
            for pair in zip(self._seen_embeddings(), states @ tensors["fc.weight"].T, strict=True)
        ]
        output = self._eagle3_layer(rows)[-1]
        for token in drafted:
            read = self._normed("norm", output) if self.config.get("norm_output") else output
            rows.append(torch.cat((self._embedded(token), read)))
            output = self._eagle3_layer(rows)[-1]
        logits = tensors["lm_head.weight"] @ self._normed("norm", output)
        whole = torch.full((self.config["vocab_size"],), float("-inf"))
        count = torch.arange(len(logits))
        whole[count + tensors.get("d2t", torch.zeros_like(count))] = logits
        return whole.softmax(-1)

    def _vispec(self, drafted: list[int]) -> Tensor:
        head = ViSpec(self.config, self.tensors, self.embeddings, self.states, self._numbers())
        return head.feature(torch.stack([self._embedded(t) for t in drafted]) if drafted else [])

    def _numbers(self) -> list[int]:
        """For each column the number of its image, -1 for text."""
        seen, numbers = 0, []
        for visual in self.image:
            numbers.append(seen // PATCHES if visual else -1)
            seen += visual
        return numbers

    def _seen_embeddings(self) -> list[Tensor]:
        """The embeddings after each slot; images' are their token's."""
        token = self._embedded(self.image_id)
        pairs = zip(self.embeddings, self.image, strict=True)
        return [token if visual else own for own, visual in pairs][1:]

    def _normed(self, path: str, x: Tensor) -> Tensor:
        size = (x**2).mean(-1, keepdim=True) + self.config["rms_norm_eps"]
        return x / size.sqrt() * self.tensors[f"{path}.weight"]

    def _eagle3_layer(self, rows: list[Tensor]) -> Tensor:
        """The outputs [n, H] of rows [n, 2 H] by transformers' modules, which read both halves."""
        embeddings, states = torch.stack(rows).chunk(2, dim=-1)
        normed = self._normed("layers.0.hidden_norm", states)
        both = torch.cat((self._normed("layers.0.input_layernorm", embeddings), normed), dim=-1)
        x = normed if self.config.get("norm_before_residual") else states
        mask = torch.full((len(rows), len(rows)), float("-inf")).triu(1)[None, None]
        attend, angles = self.layer.self_attn, self._angles(len(rows))
        x = x + attend(both[None], position_embeddings=angles, attention_mask=mask)[0][0]
        return x + self.layer.mlp(self.layer.post_attention_layernorm(x))

    def _angles(self, count: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the first `count` slots."""
        return turns(self.layer, range(count))

    def _eagle(self, drafted: list[int]) -> Tensor:
        return self._stepped(self._rows(), drafted)

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
        state, images = self.states[-1], self.embeddings[torch.tensor(self.image)]
        if self.config.get("vision", "none") == "none" or not len(images):
            return state
        return state + self.tensors["vision.weight"] @ images.mean(0)

    def _rows(self) -> list[Tensor]:
        """What the layer is fed, slot by slot."""
        rows, apart = [], self.config["kind"] in ("msd", "flash")
        for slot in range(len(self.states)):
            visual = apart and self.image[slot + 1]
            if not visual:
                rows.append(self._fused(self.embeddings[slot + 1], self.states[slot]))
            elif self.config["kind"] == "msd":
                rows.append(self.embeddings[slot + 1])
            elif not self.config["queries"]:
                rows.append(self.states[slot + 1])
            elif slot + 1 in self._first_patches():
                rows += self._latents(self.states[slot + 1 : slot + 1 + PATCHES])
        return rows

    def _first_patches(self) -> list[int]:
        firsts, at = [], 0
        while at < len(self.image):
            firsts += [at] if self.image[at] else []
            at += PATCHES if self.image[at] else 1
        return firsts

    def _latents(self, states: Tensor) -> Tensor:
        queries, scale = self.tensors["compressor.queries"], self.tensors["compressor.norm.weight"]
        sizes = (states**2).mean(-1, keepdim=True) + self.config["rms_norm_eps"]
        keys = states / sizes.sqrt() * scale
        return (queries @ keys.T / states.shape[-1] ** 0.5).softmax(-1) @ states

    def _stepped(self, rows: list[Tensor], drafted: list[int]) -> Tensor:
        for token in drafted:
            rows = [*rows, self._fused(self._embedded(token), self._run(rows)[-1])]
        return self._run(rows)[-1]

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


PATCHES = 16
"""Positions of an image of the tiny models."""


def likeliest(p: Tensor, count: int) -> list[tuple[int, float]]:
    """The first tokens by probability, of equals the lower id, with their probabilities."""
    order = sorted(range(len(p)), key=lambda token: (-float(p[token]), token))
    return [(token, float(p[token])) for token in order[:count]]


def eagle2(reference: Reference, width: int, nodes: int, depth: int) -> set[tuple[int, ...]]:
    """The paths of a dynamic tree, grown path by path (EAGLE-2, section 4)."""
    frontier: dict[tuple[int, ...], float] = {(): 1.0}
    every: dict[tuple[int, ...], float] = {}
    for _ in range(depth):
        level = {
            (*path, token): chance * p
            for path, chance in frontier.items()
            for token, p in likeliest(reference.says(list(path)), width)
        }
        every |= level
        frontier = dict(sorted(level.items(), key=lambda item: -item[1])[:width])
    return {path for path, _ in sorted(every.items(), key=lambda item: -item[1])[:nodes]}


def paths(draft: Any) -> set[tuple[int, ...]]:
    """Every node of a tree by the tokens that lead to it."""
    return {*map(tuple, scripted.paths(draft.ids.tolist(), draft.parents.tolist()))}
