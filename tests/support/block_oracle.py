"""What the model classes of vLLM's speculators package compute with a block drafter.

`python tests/support/block_oracle.py FILE`, where the package is installed, writes the values that
the tests compare with elsewhere.

Shape letters: n columns of context, B block rows, H width, c captured layers, V vocabulary.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np

COLUMNS = 9
SLIDING = {
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "sliding_window": 4,
    "use_sliding_window": True,
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "dflash": ("dflash", {}),
    "anchored": ("dflash", {"sample_from_anchor": True}),
    "mapped": ("dflash", {"draft_vocab_size": 100}),
    "one layer, odd sizes": (
        "dflash",
        {
            "layer": {"num_hidden_layers": 1, "num_key_value_heads": 1, "head_dim": 22},
            "aux_hidden_state_layer_ids": [0, 1, 2],
            "block_size": 3,
        },
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
"""Kind of the drafters, and what their configs say, by name."""


def random_sequence(layers: int, width: int, vocabulary: int) -> tuple[Any, Any]:
    """Tokens [2 n] and captured states [2 n, c H]: seeded random numbers."""
    draws = np.random.default_rng(5)
    tokens = draws.integers(0, vocabulary, 2 * COLUMNS)
    return tokens, draws.standard_normal((2 * COLUMNS, layers * width)).astype(np.float32)


def random_matrices(width: int, vocabulary: int) -> tuple[Any, Any]:
    """The target's embedding and its output matrix, both [V, H]."""
    drawn = np.random.default_rng(6).standard_normal((2, vocabulary, width)).astype(np.float32)
    return drawn[0], drawn[1] * np.float32(width**-0.5)


def rows(directory: Path, columns: int = COLUMNS) -> tuple[Any, Any]:
    """Logits [K, V] of the block after `columns` columns, and the confidence [K] or None.

    The block begins with the token at `columns`; the tokens before each row are the sequence's.
    """
    import torch

    model = _model(directory)
    config = model.config
    tokens, captured = random_sequence(
        len(config.aux_hidden_state_layer_ids), model.hidden_size, model.verifier_vocab_size
    )
    loss_mask = torch.zeros(1, len(tokens))
    loss_mask[0, columns] = 1
    ids, size = torch.tensor(tokens)[None], config.block_size
    with torch.no_grad():
        hidden, logits, *_ = model._backbone_forward(
            torch.tensor(captured)[None],
            ids,
            loss_mask,
            torch.zeros(1, len(tokens), model.hidden_size),
            torch.zeros(1, len(tokens), dtype=torch.long),
            max_anchors=1,
        )
        shift = 0 if config.sample_from_anchor else 1
        before = ids[:, columns : columns + size]
        if shift:
            before = torch.cat((before[:, :1], before[:, :-1]), dim=1)
        read = [hidden]
        if getattr(model, "markov_head", None):
            embedded = model.markov_head.prev_embeddings(before)
            bias = model.markov_head.block_bias(prev_token_ids=before, hidden_states=hidden)
            logits, read = logits + bias, [hidden, embedded]
        confidence = None
        if getattr(model, "confidence_head", None):
            parts = read if config.confidence_head_with_markov else read[:1]
            confidence = (
                model.confidence_head(torch.cat(parts, dim=-1)).sigmoid()[0, shift:].numpy()
            )
    return logits[0, shift:].numpy(), confidence


def mlx_vlm_rows(directory: Path, kind: str) -> Any:
    """Logits [K, V] of mlx-vlm's drafter after the columns, fed in two parts."""
    import mlx.core as mx
    from mlx_vlm.speculative.drafters.dspark import config as dspark_config
    from mlx_vlm.speculative.drafters.dspark import dspark
    from mlx_vlm.speculative.drafters.qwen3_dflash import config as dflash_config
    from mlx_vlm.speculative.drafters.qwen3_dflash import dflash

    said = json.loads((directory / "config.json").read_text())
    if kind == "dspark":
        config = dspark_config.DSparkConfig.from_dict(said)
        model = dspark.DSparkDraftModel(config)
    else:
        config = dflash_config.DFlashConfig.from_dict(said)
        model = dflash.DFlashDraftModel(config)
    model.load_weights(list(mx.load(str(directory / "model.safetensors")).items()))
    count = len(config.target_layer_ids)
    tokens, captured = random_sequence(count, config.hidden_size, config.vocab_size)
    table, matrix = map(mx.array, random_matrices(config.hidden_size, config.vocab_size))
    model.embed_tokens, model.lm_head = (lambda ids: table[ids]), (lambda x: x @ matrix.T)
    half, cache = COLUMNS // 2, model.make_cache()
    rows = said["block_size"]
    for start, stop in ((0, half), (half, COLUMNS)):
        block = mx.array([[int(tokens[stop]), *[config.mask_token_id] * (rows - 1)]])
        states = mx.array(captured[None, start:stop])
        hidden = model._hidden(block, states, cache)
    logits = model._logits(hidden)[0]
    if kind == "dspark":
        before = mx.array(tokens[COLUMNS : COLUMNS + rows])
        return np.array(model.markov_head.apply_step_logits(logits, before))
    return np.array(logits[1:])


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
    table, matrix = map(torch.tensor, random_matrices(config.hidden_size, said["vocab_size"]))
    head = torch.nn.Linear(*matrix.T.shape, bias=False)
    head.weight = torch.nn.Parameter(matrix)
    embedding = torch.nn.Embedding.from_pretrained(table)
    length = GenerationConfig(max_length=1000)
    generator = DFlashTokenCandidateGenerator(model, embedding, head, length)
    layers, half = config.target_layer_ids, COLUMNS // 2
    tokens, captured = random_sequence(len(layers), config.hidden_size, said["vocab_size"])
    for start, stop in ((0, half), (half, COLUMNS)):
        states = torch.tensor(captured[None, start:stop]).chunk(len(layers), -1)
        hidden = {layer + 1: state for layer, state in zip(layers, states, strict=True)}
        ids, positions = torch.tensor(tokens[None, : stop + 1]), torch.arange(stop + 1)[None]
        given = {"position_ids": positions, "attention_mask": None}
        output = SimpleNamespace(hidden_states=hidden)
        with torch.no_grad():
            _, logits = generator.get_candidates(ids, given, output, False, stop - start - 1)
    return logits[0].numpy()


def _model(directory: Path) -> Any:
    import torch
    from safetensors.torch import load_file
    from speculators import SpeculatorModel, SpeculatorModelConfig

    config = SpeculatorModelConfig.from_pretrained(directory)
    config.transformer_layer_config._attn_implementation = "eager"
    classes = SpeculatorModel.registry or {}
    model = classes[config.speculators_model_type](config)
    tensors = load_file(directory / "model.safetensors")
    table, matrix = random_matrices(model.hidden_size, model.verifier_vocab_size)
    tensors["embed_tokens.weight"] = torch.tensor(table)
    tensors.setdefault("lm_head.weight", torch.tensor(matrix))
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert set(missing) <= {"verifier_lm_head.weight", "verifier_norm.weight"}
    return model.eval().float()


def values(name: str, place: Path) -> dict[str, list[Any]]:
    """The package's last row of logits and its confidence of a variant, rounded."""
    from support.factory_blocks import speculators_block

    kind, given = VARIANTS[name]
    logits, confidence = rows(speculators_block(place / "head", kind, seed=4, **given))
    rounded = [[round(float(value), 4) for value in row] for row in logits[[0, -1]]]
    sure = [] if confidence is None else [round(float(value), 5) for value in confidence]
    return {"logits": rounded, "confidence": sure}


def main(file: Path) -> None:
    """Write the values of all variants to a file."""
    with TemporaryDirectory() as folder:
        told = {name: values(name, Path(folder) / str(at)) for at, name in enumerate(VARIANTS)}
    lines = ",\n".join(f'"{name}": {json.dumps(each)}' for name, each in told.items())
    file.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main(Path(sys.argv[1]))
