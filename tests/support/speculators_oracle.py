"""What model classes of vLLM's speculators package compute with EAGLE-3 heads and block drafters.

`PYTHONPATH=tests python -m support.speculators_oracle FILE`, where the package is installed, writes
the values that the tests compare with.  Also what transformers computes.

Shape letters: n columns, B block rows, H width, c captured layers, V vocabulary, K drafted tokens.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np

from support.factory_heads import VOCABULARY, WIDTH
from support.factory_published import speculators

STEPS, COLUMNS = 3, 9
"""Tokens that an EAGLE-3 head drafts; columns before a draft."""
SLIDING = {
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "sliding_window": 4,
    "use_sliding_window": True,
}
WIDE = {"head_dim": 32, "rope_theta": 5e6, "rms_norm_eps": 1e-6}
ODD = {"num_hidden_layers": 1, "num_key_value_heads": 1, "head_dim": 22}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("eagle3", {}),
    "every token": ("eagle3", {"draft_vocab_size": 320}),
    "norm before the residual": ("eagle3", {"norm_before_residual": True}),
    "a norm of all states": ("eagle3", {"norm_before_fc": True}),
    "3.1": ("eagle3", {"fc_norm": True, "norm_output": True}),
    "grouped": ("eagle3", {"layer": {"num_key_value_heads": 2}}),
    "wide heads": ("eagle3", {"layer": WIDE}),
    "qwen3": (
        "eagle3",
        {"layer": {"model_type": "qwen3", "num_key_value_heads": 2}, "norm_output": True},
    ),
    "two layers": ("eagle3", {"eagle_aux_hidden_state_layer_ids": [0, 2], "fc_norm": True}),
    "dflash": ("dflash", {}),
    "anchored": ("dflash", {"sample_from_anchor": True}),
    "mapped": ("dflash", {"draft_vocab_size": 100}),
    "odd sizes": (
        "dflash",
        {"layer": ODD, "aux_hidden_state_layer_ids": [0, 1, 2], "block_size": 3},
    ),
    "sliding": ("dflash", {"layer": SLIDING}),
    "sliding both ways": ("dflash", {"layer": SLIDING, "sliding_window_non_causal": True}),
    "dspark": ("dspark", {}),
    "gated": ("dspark", {"markov_head_type": "gated", "block_size": 4}),
    "rnn": ("dspark", {"markov_head_type": "rnn"}),
    "rnn mapped": ("dspark", {"markov_head_type": "rnn", "draft_vocab_size": 100}),
    "masks alone": ("dspark", {"sample_from_anchor": False}),
    "no markov": ("dspark", {"markov_rank": 0, "confidence_head_with_markov": False}),
}
"""Kind of the heads, and what their configs say, by name."""


def written(name: str, path: Path, seed: int = 4) -> Path:
    """Write a variant's random head to `path`; returns `path`."""
    kind, given = VARIANTS[name]
    return speculators(path, kind, seed=seed, **given)


def random_sequence(layers: int) -> tuple[Any, Any]:
    """Tokens [2 n] and captured states [2 n, c H]: seeded random numbers."""
    draws = np.random.default_rng(5)
    tokens = draws.integers(0, VOCABULARY, 2 * COLUMNS)
    return tokens, draws.standard_normal((2 * COLUMNS, layers * WIDTH)).astype(np.float32)


def random_matrices() -> tuple[Any, Any]:
    """The target's embedding and its output matrix, both [V, H]."""
    drawn = np.random.default_rng(6).standard_normal((2, VOCABULARY, WIDTH)).astype(np.float32)
    return drawn[0], drawn[1] * np.float32(WIDTH**-0.5)


def rows(directory: Path) -> tuple[Any, Any]:
    """Logits [K, V] of a draft after COLUMNS columns, and its confidence [K] or None.

    The tokens before each row are the sequence's.
    """
    model = _model(directory)
    if model.config.speculators_model_type == "eagle3":
        return _eagle3_rows(model), None
    return _block_rows(model)


def _model(directory: Path) -> Any:
    import torch
    from safetensors.torch import load_file
    from speculators import SpeculatorModel, SpeculatorModelConfig

    config = SpeculatorModelConfig.from_pretrained(directory)
    config.transformer_layer_config._attn_implementation = "eager"
    model = (SpeculatorModel.registry or {})[config.speculators_model_type](config)
    tensors = load_file(directory / "model.safetensors")
    for name, matrix in zip(("embed_tokens", "lm_head"), random_matrices(), strict=True):
        tensors.setdefault(f"{name}.weight", torch.tensor(matrix))
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert set(missing) <= {"verifier_lm_head.weight", "verifier_norm.weight"}
    return model.eval().float()


def _eagle3_rows(model: Any) -> Any:
    """Logits [K, V] by step."""
    import torch

    found: list[Any] = []
    model.lm_head.register_forward_hook(lambda _module, _given, output: found.append(output[0]))
    layers = len(model.config.eagle_aux_hidden_state_layer_ids)
    ids, captured = map(torch.tensor, random_sequence(layers))
    with torch.no_grad():
        model(
            hidden_states=captured[None],
            input_ids=torch.roll(ids, -1)[None],
            document_ids=torch.zeros(1, len(ids), dtype=torch.long),
            ttt_steps=STEPS,
        )
    return torch.stack(found)[:, COLUMNS - 1].numpy()


def _block_rows(model: Any) -> tuple[Any, Any]:
    import torch

    config = model.config
    ids, captured = map(torch.tensor, random_sequence(len(config.aux_hidden_state_layer_ids)))
    loss_mask = torch.zeros(1, len(ids))
    loss_mask[0, COLUMNS] = 1
    shift = 0 if config.sample_from_anchor else 1
    with torch.no_grad():
        hidden, logits, *_ = model._backbone_forward(
            captured[None],
            ids[None],
            loss_mask,
            torch.zeros(1, len(ids), WIDTH),
            torch.zeros(1, len(ids), dtype=torch.long),
            max_anchors=1,
        )
        before = ids[None, COLUMNS : COLUMNS + config.block_size]
        if shift:
            before = torch.cat((before[:, :1], before[:, :-1]), dim=1)
        read = [hidden]
        if getattr(model, "markov_head", None):
            embedded = model.markov_head.prev_embeddings(before)
            bias = model.markov_head.block_bias(prev_token_ids=before, hidden_states=hidden)
            logits, read = logits + bias, [hidden, embedded]
        if not getattr(model, "confidence_head", None):
            return logits[0, shift:].numpy(), None
        parts = read if config.confidence_head_with_markov else read[:1]
        confidence = model.confidence_head(torch.cat(parts, dim=-1)).sigmoid()[0, shift:]
    return logits[0, shift:].numpy(), confidence.numpy()


def transformers_rows(directory: Path) -> Any:
    """Logits [B - 1, V] of transformers' DFlash after the columns, fed in two rounds.

    directory: a drafter in z-lab's layout.
    """
    import torch
    from safetensors.torch import load_file
    from transformers import GenerationConfig, MuseGlimmerAssistantConfig, MuseGlimmerAssistantModel
    from transformers.generation import DFlashTokenCandidateGenerator

    said = json.loads((directory / "config.json").read_text())
    said |= said.pop("dflash_config")
    said["rope_parameters"] = {"rope_type": "default", "rope_theta": said["rope_theta"]}
    said.setdefault("layer_types", ["full_attention"] * said["num_hidden_layers"])
    # transformers' window also holds the column at its distance.
    said["sliding_window"] = said.get("sliding_window", COLUMNS) - 1
    names = MuseGlimmerAssistantConfig.__dataclass_fields__.keys() - {"architectures", "model_type"}
    config = MuseGlimmerAssistantConfig(**{name: said[name] for name in names & said.keys()})
    model = MuseGlimmerAssistantModel(config).eval()
    own = {"fc.weight": "encoder.fc.weight", "hidden_norm.weight": "encoder.output_norm_enc.weight"}
    tensors = load_file(directory / "model.safetensors").items()
    model.load_state_dict({own.get(name, name): tensor for name, tensor in tensors})
    table, matrix = map(torch.tensor, random_matrices())
    head = torch.nn.Linear(*matrix.T.shape, bias=False)
    head.weight = torch.nn.Parameter(matrix)
    embedding = torch.nn.Embedding.from_pretrained(table)
    length = GenerationConfig(max_length=1000)
    generator = DFlashTokenCandidateGenerator(model, embedding, head, length)
    layers, half = config.target_layer_ids, COLUMNS // 2
    tokens, captured = random_sequence(len(layers))
    for start, stop in ((0, half), (half, COLUMNS)):
        states = torch.tensor(captured[None, start:stop]).chunk(len(layers), -1)
        hidden = {layer + 1: state for layer, state in zip(layers, states, strict=True)}
        ids, positions = torch.tensor(tokens[None, : stop + 1]), torch.arange(stop + 1)[None]
        given = {"position_ids": positions, "attention_mask": None}
        output = SimpleNamespace(hidden_states=hidden)
        with torch.no_grad():
            _, logits = generator.get_candidates(ids, given, output, False, stop - start - 1)
    return logits[0].numpy()


def main(file: Path) -> None:
    """Write each variant's first and last row of logits and its confidence, rounded."""
    lines = []
    with TemporaryDirectory() as folder:
        for place, name in enumerate(VARIANTS):
            logits, sure = rows(written(name, Path(folder) / str(place)))
            values = {
                "logits": np.round(logits[[0, -1]].astype(float), 4).tolist(),
                "confidence": [] if sure is None else np.round(sure.astype(float), 5).tolist(),
            }
            lines.append(f'"{name}": {json.dumps(values)}')
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
