"""What the model class of vLLM's speculators package computes with an EAGLE-3 head.

`python tests/support/speculators_oracle.py FILE`, where the package is installed, writes the values
that the tests compare with elsewhere.

Shape letters: n columns, H width, c captured layers, d tokens that the head can draft, s steps.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

STEPS, COLUMNS = 3, 9
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "every token": {"draft_vocab_size": 320},
    "norm before the residual": {"norm_before_residual": True},
    "a norm of all states": {"norm_before_fc": True},
    "3.1": {"fc_norm": True, "norm_output": True},
    "grouped": {"layer": {"num_key_value_heads": 2}},
    "wide heads": {"layer": {"head_dim": 32, "rope_theta": 5e6, "rms_norm_eps": 1e-6}},
    "qwen3": {"layer": {"model_type": "qwen3", "num_key_value_heads": 2}, "norm_output": True},
    "two layers": {"eagle_aux_hidden_state_layer_ids": [0, 2], "fc_norm": True},
}
"""What the configs of the heads say, by name."""


class Sequence(NamedTuple):
    """What a head reads of a target: random numbers."""

    tokens: Any
    """[n + s] ids."""
    captured: Any
    """[n + s, c H] states of the captured layers."""


def random_sequence(layers: int, width: int, vocabulary: int) -> Sequence:
    """A sequence of seeded random numbers, in float32."""
    draws = np.random.default_rng(5)
    tokens = draws.integers(0, vocabulary, COLUMNS + STEPS)
    captured = draws.standard_normal((COLUMNS + STEPS, layers * width)).astype(np.float32)
    return Sequence(tokens, captured)


def logits(directory: Path, sequence: Sequence) -> Any:
    """Logits [s, n, d] of the package's model: step, column that the draft begins after."""
    return _told(_model(directory), sequence)


def verified_logits(directory: Path, sequence: Sequence) -> Any:
    """As `logits`, of a head whose config names a target that is there: nothing is passed by."""
    from speculators import SpeculatorModel, SpeculatorModelConfig

    config = SpeculatorModelConfig.from_pretrained(directory)
    config.transformer_layer_config._attn_implementation = "eager"
    model = SpeculatorModel.from_pretrained(directory, config=config)
    # Newer transformers than the package allows leave zeros where it looks for NaN.
    model._load_verifier_weights(overwrite_embed_tokens=True)
    return _told(model.eval().float(), sequence)


def _told(model: Any, sequence: Sequence) -> Any:
    import torch

    rows: list[Any] = []
    model.lm_head.register_forward_hook(lambda _module, _given, output: rows.append(output[0]))
    tokens = torch.tensor(sequence.tokens)
    count = len(tokens)
    with torch.no_grad():
        model(
            hidden_states=torch.tensor(sequence.captured)[None],
            input_ids=torch.roll(tokens, -1)[None],
            document_ids=torch.zeros(1, count, dtype=torch.long),
            ttt_steps=STEPS,
        )
    return torch.stack(rows)[:, :COLUMNS].numpy()


def _model(directory: Path) -> Any:
    from safetensors.torch import load_file
    from speculators import SpeculatorModelConfig
    from speculators.models.eagle3 import Eagle3DraftModel

    config = SpeculatorModelConfig.from_pretrained(directory)
    config.transformer_layer_config._attn_implementation = "eager"
    model = Eagle3DraftModel(config)
    missing, unexpected = model.load_state_dict(
        load_file(directory / "model.safetensors"), strict=False
    )
    assert not unexpected
    assert set(missing) <= {"verifier_lm_head.weight", "verifier_norm.weight"}
    return model.eval()


def values(name: str, place: Path) -> list[Any]:
    """The package's logits of a variant at the last column, rounded, a list for each step."""
    from support.factory_heads import VOCABULARY, WIDTH, speculators

    given = VARIANTS[name]
    directory = speculators(place / "head", seed=4, **given)
    layers = len(given.get("eagle_aux_hidden_state_layer_ids", [0, 1, 2]))
    told = logits(directory, random_sequence(layers, WIDTH, VOCABULARY))
    return [[round(float(value), 4) for value in step[-1]] for step in told]


def main(file: Path) -> None:
    """Write the values of all variants to a file."""
    with TemporaryDirectory() as folder:
        told = {name: values(name, Path(folder) / str(at)) for at, name in enumerate(VARIANTS)}
    lines = ",\n".join(f'"{name}": {json.dumps(steps)}' for name, steps in told.items())
    file.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main(Path(sys.argv[1]))
