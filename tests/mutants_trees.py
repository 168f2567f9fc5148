"""Mistakes in trees: their shapes, growth, verification and what is kept of them."""

from mutant import MLX, TORCH, Mutant

SHAPES = "tests/core/test_tree.py::"
LOOP = "tests/core/test_tree_loop.py::"
CACHES = "tests/conformance/test_conformance_tree_caches.py::"
JUDGED = SHAPES + "test_what_is_said_at_every_node_is_exactly_the_targets"
EAGLE = SHAPES + "test_a_dynamic_tree_is_eagles"
GROWN = CACHES + "test_branches_grow_the_tree_that_plain_sequences_would"
SEEN = CACHES + "test_every_node_is_judged_as_if_its_path_had_been_said"
KEPT = CACHES + "test_any_path_can_be_kept"

TREES = [
    # The algorithm
    Mutant(
        "every sibling is tried as if it were the first",
        "mmspec/maths.py",
        "later = siblings & (",
        "later = siblings | (",
        JUDGED + "[siblings-dense]",
    ),
    Mutant(
        "a sibling's share is not renormalised",
        "mmspec/maths.py",
        "chances / xp.where(chances > 0, left, 1.0)",
        "chances / xp.where(chances > 0, 1.0, 1.0)",
        JUDGED + "[siblings-dense]",
    ),
    Mutant(
        "rejected children may be fallen back on",
        "mmspec/maths.py",
        "    rest[rows, drafted] = 0\n",
        "",
        JUDGED + "[tree-dense]",
    ),
    Mutant(
        "what is left is one minus what is gone",
        "mmspec/maths.py",
        "left = left + xp.take(xp.sum(rest, axis=-1), rows, axis=0)",
        "left = 1 - xp.sum(xp.where(siblings & ~later, xp.expand_dims(chances, axis=0), 0.0), -1)",
        SHAPES + "test_the_last_of_all_tokens_is_kept_for_certain",
    ),
    Mutant(
        "a node is compared with its own argmax",
        "mmspec/draft.py",
        "float(token == best[int(parent) + 1])",
        "float(token == best[int(parent)])",
        LOOP + "test_greedy_decoding_equals_the_target_alone[5-static]",
    ),
    Mutant(
        "a path may jump to another branch",
        "mmspec/loop.py",
        "if parent == at and (",
        "if parent <= at and (",
        "tests/core/test_loop.py::test_walk_takes_the_first_child_accepted",
    ),
    Mutant(
        "a node sees its parent alone",
        "mmspec/maths.py",
        "for _ in range(depth):",
        "for _ in range(min(depth, 1)):",
        SHAPES + "test_a_node_sees_its_path_alone",
    ),
    # Shapes and growth
    Mutant(
        "a static tree is cut from its end",
        "mmspec/tree.py",
        "sibling = product // (rank + 1) * (rank + 2)",
        "sibling = product",
        SHAPES + "test_a_static_tree_keeps_the_least_products_and_their_ancestors",
    ),
    Mutant(
        "a path may be longer than asked",
        "mmspec/tree.py",
        "return min(k, len(self.branching)) if self.branching else k",
        "return len(self.branching) or k",
        SHAPES + "test_no_path_of_a_static_tree_is_longer_than_asked[1]",
    ),
    Mutant(
        "a node's chance forgets its parent's",
        "mmspec/growth.py",
        "chances = xp.expand_dims(chances, axis=-1) * xp.where",
        "chances = xp.expand_dims(chances, axis=-1) * 0 + xp.where",
        EAGLE + "[said]",
    ),
    Mutant(
        "a child may be likelier than its parent",
        "mmspec/growth.py",
        "xp.where(likely < 1, likely, 1.0)",
        "likely",
        "tests/core/test_tree.py::"
        "test_a_child_that_rounding_makes_likelier_than_certain_keeps_its_parent",
    ),
    Mutant(
        "the newest level alone is kept",
        "mmspec/growth.py",
        "zip(*made, strict=True))",
        "zip(*made[-1:], strict=True))",
        EAGLE + "[said]",
    ),
    Mutant(
        "a parent is one of all candidates",
        "mmspec/growth.py",
        "return Grown(xp.take(ids, kept, axis=0), places, len(made))",
        "return Grown(xp.take(ids, kept, axis=0), above[:, 0], len(made))",
        EAGLE + "[said]",
    ),
    Mutant(
        "nodes are counted as levels",
        "mmspec/loop.py",
        "draft.depth if draft else 0",
        "draft.size if draft else 0",
        LOOP + "test_rounds_count_nodes_and_levels",
    ),
    Mutant(
        "trees and chains share what was measured",
        "mmspec/engine.py",
        "return self._lengths[drafting, tree]",
        "return self._lengths.setdefault((drafting, None), self._lengths[drafting, tree])",
        LOOP + "test_draft_lengths_are_learned_apart_from_those_of_chains",
    ),
    # PyTorch
    Mutant(
        "torch: of equals any is taken",
        TORCH + "growth.py",
        ".bitwise_left_shift(32) - place",
        ".bitwise_left_shift(32) + place",
        "tests/torch/test_torch_growth.py::test_of_equals_the_first_is_taken",
    ),
    Mutant(
        "torch: a node is fed without its ancestors",
        TORCH + "growth.py",
        "above = () if self._mask is None else (self._mask.index_select(0, parents),)",
        "above = () if self._mask is None else (self._mask[:1].repeat(count, 1),)",
        GROWN + "[torch-static]",
    ),
    Mutant(
        "torch: a level stands where the one before does",
        TORCH + "frontier.py",
        "step = Step(next(self._angles), ",
        "self._angles = iter(list(self._angles))\n        first = next(self._angles)\n"
        "        self._angles = iter([first] * 9)\n        step = Step(first, ",
        GROWN + "[torch-static]",
    ),
    Mutant(
        "torch: padding is seen from a tree",
        TORCH + "frontier.py",
        "self._padding = None if mask is None else mask[..., :columns]",
        "self._padding = None",
        GROWN + "[torch-static]",
    ),
    Mutant(
        "torch: a tree's keys stay with the drafter",
        TORCH + "drafter.py",
        "return self.draft.size - 1 if self.draft and self.draft.parents is None else 0",
        "return self.draft.size - 1 if self.draft else 0",
        GROWN + "[torch-static]",
    ),
    Mutant(
        "torch: nodes stand in columns' order",
        TORCH + "target.py",
        "seen.sum(dim=-1) - 1, levels)",
        "torch.arange(len(x), device=x.device), len(x))",
        SEEN + "[torch-static]",
    ),
    Mutant(
        "torch: nodes see all that is drafted",
        TORCH + "llama.py",
        "masked_fill_(~seen, hidden(like.dtype))",
        "masked_fill_(~seen, 0.0)",
        SEEN + "[torch-static]",
    ),
    Mutant(
        "torch: the first columns are kept whatever the path",
        TORCH + "target.py",
        "self._cache.gather(length, [length + node for node in path])",
        "self._cache.gather(length, [length + place for place in range(len(path))])",
        KEPT + "[torch-static]",
    ),
    Mutant(
        "torch: a draft survives half a commit",
        TORCH + "target.py",
        "            self._state = self._state._replace(verified=None)\n",
        "",
        "tests/torch/test_torch_growth.py::test_a_gather_that_broke_voids_the_draft",
    ),
    # MLX
    Mutant(
        "mlx: of equals any is taken",
        MLX + "growth.py",
        "key = place - mx.left_shift",
        "key = -place - mx.left_shift",
        "tests/mlx/test_mlx_growth.py::test_of_equals_the_first_is_taken",
    ),
    Mutant(
        "mlx: a node is fed without its ancestors",
        MLX + "growth.py",
        "[mx.take(self._mask, parents, axis=0)]",
        "[mx.take(self._mask, parents * 0, axis=0)]",
        GROWN + "[mlx-static]",
    ),
    Mutant(
        "mlx: a level stands where the one before does",
        MLX + "frontier.py",
        "positions = [start + self._level for start in self._starts]",
        "positions = list(self._starts)",
        GROWN + "[mlx-static]",
    ),
    Mutant(
        "mlx: padding is seen from a tree",
        MLX + "columns.py",
        "        order = behind(columns, mask)\n        if not self._padded:\n",
        "        order = behind(columns, mask)\n        if True:\n",
        GROWN + "[mlx-static]",
    ),
    Mutant(
        "mlx: a tree's keys stay with the drafter",
        MLX + "drafter.py",
        "followed = depth - 1 if draft.parents is None else 0",
        "followed = depth - 1",
        GROWN + "[mlx-static]",
    ),
    Mutant(
        "mlx: nodes stand in columns' order",
        MLX + "target.py",
        "mx.expand_dims(at + mx.sum(seen, axis=-1) - 1, 0)",
        "mx.expand_dims(at + mx.arange(len(rows)), 0)",
        SEEN + "[mlx-static]",
    ),
    Mutant(
        "mlx: nodes see all that is drafted",
        MLX + "target.py",
        "mask = behind(at, additive(seen, rows.dtype))",
        "mask = behind(at, additive(seen | True, rows.dtype))",
        SEEN + "[mlx-static]",
    ),
    Mutant(
        "mlx: the first columns are kept whatever the path",
        MLX + "target.py",
        "[self.length + node for node in path]",
        "[self.length + place for place in range(len(path))]",
        KEPT + "[mlx-static]",
    ),
]
