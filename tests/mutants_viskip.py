"""Mistakes in skipping drafts while the target looks at its images."""

from mutant import MLX, TORCH, Mutant

VISKIP = "tests/core/test_viskip.py::"
LOOKS = "tests/conformance/test_conformance_viskip.py::"

SKIPPED = [
    Mutant(
        "a round tells what another token saw",
        "mmspec/loop.py",
        "verdict.seen[last + 1] if",
        "verdict.seen[last] if",
        VISKIP + "test_a_round_tells_what_its_last_accepted_token_saw",
    ),
    Mutant(
        "a round that looked is followed by a draft",
        "mmspec/viskip.py",
        "return 0 if self._looks else self.lengths.choose(limit)",
        "return self.lengths.choose(limit)",
        VISKIP + "test_a_round_is_plain_exactly_where_the_last_one_looked",
    ),
    Mutant(
        "text alone is skipped",
        "mmspec/viskip.py",
        "0 < round_.seen >= self.threshold",
        "round_.seen >= self.threshold",
        VISKIP + "test_text_alone_is_drafted_as_without",
    ),
    Mutant(
        "a skipped round counts as a trial",
        "mmspec/lengths.py",
        "self._trying = False  # a round may follow whose length another chose",
        "pass",
        VISKIP + "test_a_trial_that_was_skipped_is_still_due",
    ),
    Mutant(
        "only the first image is looked at",
        "mmspec/viskip.py",
        "for a, b in images)",
        "for a, b in images[:1])",
        VISKIP + "test_the_share_is_each_heads_softmax_over_all_it_sees",
    ),
    Mutant(
        "what a tree's nodes saw is forgotten",
        "mmspec/draft.py",
        "return judged(drafted, parents, accept, best, seen)",
        "return judged(drafted, parents, accept, best)",
        LOOKS + "test_every_node_of_a_tree_is_watched_as_if_its_path_had_been_said",
    ),
    Mutant(
        "torch: the first layer is watched",
        TORCH + "llama.py",
        "layer is self._layers[-1]",
        "layer is self._layers[0]",
        LOOKS + "test_every_drafted_token_is_watched_as_transformers_attends",
    ),
    Mutant(
        "torch: an image that was cut off is seen",
        TORCH + "row.py",
        "min(image.stop, length)) for image in self.images)",
        "image.stop) for image in self.images)",
        LOOKS + "test_a_rewound_target_sees_what_is_left",
    ),
    Mutant(
        "mlx: the first layer is watched",
        MLX + "llama.py",
        "layer is self._layers[-1]",
        "layer is self._layers[0]",
        LOOKS + "test_every_drafted_token_is_watched_as_transformers_attends",
    ),
    Mutant(
        "mlx: a watched token sees what follows",
        MLX + "llama.py",
        "mx.zeros(1) if mask is None else mask.astype(mx.float32)",
        "mx.zeros(1)",
        LOOKS + "test_every_drafted_token_is_watched_as_transformers_attends",
    ),
]
