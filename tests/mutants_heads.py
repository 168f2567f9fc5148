"""Mistakes in heads: their slots, their trail, what is kept after a round, their files."""

from mutant import MLX, TORCH, Mutant

OUTLINE = "tests/core/test_outline.py::"
FILES = "tests/core/test_heads.py::"
REFERENCE = "tests/torch/test_torch_heads.py::"
CACHES = "tests/conformance/test_conformance_head_caches.py::"
CHAINS = REFERENCE + "test_drawn_chains_come_from_the_heads_own_distributions"
GROWN = REFERENCE + "test_dynamic_trees_are_those_grown_path_by_path"
TOY = OUTLINE + "test_the_toy_of_two_words_four_patches_and_two_words"
MOVED = CACHES + "test_a_path_that_moves_takes_its_hidden_states_along"
REWOUND = CACHES + "test_a_head_rewound_anywhere_drafts_like_a_cold_one"

HEADS = [
    Mutant(
        "an image is met at its own columns, not one slot before",
        "mmspec/heads/outline.py",
        "start = max(first - 1, 0)",
        "start = first",
        TOY,
    ),
    Mutant(
        "a packed image keeps its positions",
        "mmspec/heads/outline.py",
        "run.stop - run.start - self.packed for run in done",
        "0 for run in done",
        TOY,
    ),
    Mutant(
        "only the first image is kept apart",
        "mmspec/heads/outline.py",
        "for first, end in self.images:",
        "for first, end in self.images[:1]:",
        OUTLINE + "test_packing_loses_no_text",
    ),
    Mutant(
        "a pair has the state first",
        "mmspec/heads/modules.py",
        "concat([embeddings, states], -1)",
        "concat([states, embeddings], -1)",
        CHAINS + "[eagle-text]",
    ),
    Mutant(
        "a pair has the token that gave the state",
        "mmspec/heads/forwards.py",
        "self._parts.fuse(base.inputs(*after), base",
        "self._parts.fuse(base.inputs(run.start, run.stop), base",
        CHAINS + "[eagle-text]",
    ),
    Mutant(
        "an image is fed as pairs",
        "mmspec/heads/config.py",
        'return self.kind in ("msd", "flash")',
        'return self.kind == "flash"',
        CHAINS + "[msd-one]",
    ),
    Mutant(
        "latents are not scaled",
        "mmspec/heads/modules.py",
        "self.norm(states).T / states.shape[-1] ** 0.5",
        "self.norm(states).T",
        CHAINS + "[flash-one]",
    ),
    Mutant(
        "Hydra forgets what was drafted",
        "mmspec/heads/frontiers.py",
        "concat([known, self._embed(tokens)], -1)",
        "concat([known, self._embed(tokens * 0)], -1)",
        CHAINS + "[hydra-text]",
    ),
    Mutant(
        "a node goes on from any feature",
        "mmspec/heads/frontiers.py",
        "of(self._framework, self._features, parents))",
        "of(self._framework, self._features, parents if parents is None else parents * 0))",
        GROWN + "[eagle-all]",
    ),
    Mutant(
        "torch: a kept path leaves the trail as it was",
        TORCH + "target.py",
        "self._trail.gather(length, [length + node for node in path])",
        "pass",
        MOVED + "[msd-torch]",
    ),
    Mutant(
        "mlx: a kept path leaves the trail as it was",
        MLX + "target.py",
        "self._trail.gather(self.length, columns)",
        "pass",
        MOVED + "[msd-mlx]",
    ),
    Mutant(
        "drafted features are kept in a head's cache",
        "mmspec/heads/drafter.py",
        "fed = state.outline.slots if state.draft else state.fed",
        "fed = state.outline.slots + len(path) if state.draft else state.fed",
        CHAINS + "[flash-text]",
    ),
    Mutant(
        "a rewound head keeps its slots",
        "mmspec/heads/drafter.py",
        "State(outline, min(self._state.fed, outline.slots))",
        "State(outline, self._state.fed)",
        REWOUND + "[eagle-torch-2]",
    ),
    Mutant(
        "a head of another width is loaded",
        "mmspec/heads/config.py",
        "if config.hidden_size != text.hidden_size or",
        "if",
        REFERENCE + "test_a_head_of_another_target_is_refused",
    ),
    Mutant(
        "a tensor may be missing",
        "mmspec/checkpoint.py",
        'is missing"] if name in needed else []',
        'is missing"] if not needed else []',
        FILES + "test_every_tensor_is_required[msd]",
    ),
]
