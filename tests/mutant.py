"""One deliberate mistake, and the names of the places where most are made and caught."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`old`, which stands once in `file`, becomes `new`; `test` must then fail."""

    name: str
    file: str
    old: str
    new: str
    test: str


LOOP = "tests/core/test_loop.py::"
NGRAM = "tests/core/test_ngram.py::"
ESTIMATES = "tests/core/test_estimates.py::"
LENGTHS = "tests/core/test_lengths.py::"
CALIBRATION = "tests/core/test_calibration.py::"
SESSION = "tests/core/test_session.py::"
ADAPTIVE = "tests/core/test_adaptive.py::"
CHAT = "tests/core/test_chat.py::"
RUNNER = "tests/core/test_suite_runner.py::"
DRAFTING = "tests/core/test_drafting.py::"
SEQUENCES = "tests/conformance/test_conformance_sequences.py::"
SAMPLING = "tests/conformance/test_conformance_sampling.py::"
ORACLE = "tests/conformance/test_conformance_oracle.py::"
FEATURES = "tests/conformance/test_conformance_features.py::"
CHATS = "tests/conformance/test_conformance_chat.py::"
DRAWN = LOOP + "test_sampling_is_exactly_the_targets"
PAIRS = SAMPLING + "test_pairs_of_tokens_come_as_often_as_the_target_says"
DENSE = (
    "tests/conformance/test_conformance_adaptive.py::test_weights_are_those_of_the_dense_history"
)
TORCH, MLX = "backends/mmspec_torch/", "backends/mmspec_mlx/"
