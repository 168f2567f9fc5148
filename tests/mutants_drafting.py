"""Mistakes in what is drafted from: views, weights, features."""

from mutant import ADAPTIVE, DRAFTING, FEATURES, SESSION, Mutant

DRAFTED = [
    # Drafting
    Mutant(
        "weights are not normalised",
        "mmspec/drafting.py",
        "return tuple(weight / sum(weights) for weight in weights)",
        "return tuple(weights)",
        DRAFTING + "test_weights_keep_their_ratios_and_sum_to_one",
    ),
    Mutant(
        "weights in flight are not normalised",
        "mmspec/drafting.py",
        "return [w / total for w in left] if total else []",
        "return left if total else []",
        DRAFTING + "test_a_branch_at_the_end_of_its_positions_stops_counting",
    ),
    Mutant(
        "merged branches keep one weight",
        "mmspec/drafting.py",
        "kept[fitted] = kept.get(fitted, 0.0) + weight",
        "kept[fitted] = weight",
        DRAFTING + "test_branches_that_become_equal_are_merged",
    ),
    Mutant(
        "pooling takes the smallest size",
        "mmspec/drafting.py",
        "for side in range(grid - 1, 0, -1) if grid % side == 0]",
        "for side in range(1, grid) if grid % side == 0]",
        DRAFTING + "test_pool_takes_the_largest_size_that_fits",
    ),
    Mutant(
        "features are shared with any tower",
        "mmspec/loaded.py",
        "        return bool(model.tower) and (model.tower, preprocessing) == (",
        "        return bool(model.tower) and (self.model.tower, preprocessing) == (",
        FEATURES + "test_other_towers_look_for_themselves",
    ),
    Mutant(
        "features are shared whatever the pixels",
        "mmspec/loaded.py",
        "(model.tower, preprocessing) == (",
        "(model.tower, self.preprocessing) == (",
        FEATURES + "test_other_pixels_are_not_shared",
    ),
    # Adaptive weights
    Mutant(
        "the bonus token is observed",
        "mmspec/adaptive.py",
        "min(tokens, evidence.q.shape[0])",
        "tokens",
        ADAPTIVE + "test_accepted_places_and_the_rejected_one_count_and_the_bonus_does_not",
    ),
    Mutant(
        "the rejected token is not observed",
        "mmspec/adaptive.py",
        "min(tokens, evidence.q.shape[0])",
        "min(tokens - 1, evidence.q.shape[0])",
        ADAPTIVE + "test_every_round_is_mixed_as_the_rounds_before_it_say",
    ),
    Mutant(
        "all drafted tokens are observed",
        "mmspec/adaptive.py",
        "min(tokens, evidence.q.shape[0])",
        "evidence.q.shape[0]",
        ADAPTIVE + "test_every_round_is_mixed_as_the_rounds_before_it_say",
    ),
    Mutant(
        "the window keeps the first tokens",
        "mmspec/adaptive.py",
        "scores=scores[-window:]",
        "scores=scores[:window]",
        ADAPTIVE + "test_a_window_forgets_what_left_it",
    ),
    Mutant(
        "only the last round counts",
        "mmspec/adaptive.py",
        "scores = self.xp.concat([self.scores, scores], axis=0)",
        "pass",
        ADAPTIVE + "test_weights_are_those_of_the_whole_history",
    ),
    Mutant(
        "a branch at the end of its positions is fitted",
        "mmspec/adaptive.py",
        "agreed = xp.where(barred > 0, -1.0, agreed)",
        "agreed = xp.where(barred > 9, -1.0, agreed)",
        SESSION + "test_a_view_at_the_end_of_its_positions_gets_no_weight_whatever_was_observed",
    ),
    Mutant(
        "matches alone choose the mixture",
        "mmspec/adaptive.py",
        'xp.where(agreed == xp.max(agreed), far, float("inf"))',
        'xp.where(agreed == xp.max(agreed), 0.0, float("inf"))',
        ADAPTIVE + "test_weights_are_those_of_the_whole_history",
    ),
    Mutant(
        "the cross-entropy alone chooses the mixture",
        "mmspec/adaptive.py",
        'xp.where(agreed == xp.max(agreed), far, float("inf"))',
        "far",
        ADAPTIVE + "test_matches_come_before_the_cross_entropy",
    ),
    Mutant(
        "an answer starts where the last one ended",
        "mmspec/session.py",
        "            if side and not side.carry:\n                side.drafter.forget()\n",
        "",
        SESSION + "test_each_answer_starts_from_equal_weights_also_after_a_dropped_one",
    ),
    Mutant(
        "fitted weights are not reported",
        "mmspec/loop.py",
        "mixed = tuple(verdict.weights or weights) if draft else ()",
        "mixed = tuple(weights) if draft else ()",
        ADAPTIVE + "test_every_round_is_mixed_as_the_rounds_before_it_say",
    ),
]
