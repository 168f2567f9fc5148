"""Break the code on purpose, one line at a time, and see that the named test turns red.

    python tests/mutants.py [NAME...]

Each mutant is a replacement of text in a temporary copy of the tree; the tree itself is never
touched. Exits with 1 if a mutant survives its test.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = ("mmspec", "backends", "cli", "models", "tests", "docs", "pyproject.toml")
UNNEEDED = shutil.ignore_patterns("__pycache__", "*.safetensors", "*.egg-info")


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
LENGTHS = "tests/core/test_lengths.py::"
SESSION = "tests/core/test_session.py::"
ADAPTIVE = "tests/core/test_adaptive.py::"
VISKIP = "tests/core/test_viskip.py::"
LOOKS = "tests/conformance/test_conformance_viskip.py::"
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

MUTANTS = [
    # The algorithm
    Mutant(
        "every drafted token is accepted",
        "mmspec/maths.py",
        "accept = xp.minimum(p_at / q_at, xp.ones_like(p_at))",
        "accept = xp.ones_like(p_at)",
        DRAWN + "[T1-drawn]",
    ),
    Mutant(
        "the acceptance ratio is upside down",
        "mmspec/maths.py",
        "xp.minimum(p_at / q_at,",
        "xp.minimum(q_at / p_at,",
        DRAWN + "[T1-drawn]",
    ),
    Mutant(
        "the fallback is drawn from p, not from the residual",
        "mmspec/maths.py",
        "residual = xp.maximum(p[:-1, :] - q, xp.zeros_like(q))",
        "residual = p[:-1, :]",
        DRAWN + "[T1-drawn]",
    ),
    Mutant(
        "temperature multiplies",
        "mmspec/maths.py",
        "** (1.0 / sampling.temperature)",
        "** sampling.temperature",
        DRAWN + "[T0.6-drawn]",
    ),
    Mutant(
        "top-k keeps one more",
        "mmspec/maths.py",
        "[..., sampling.top_k - 1 : sampling.top_k]",
        "[..., sampling.top_k : sampling.top_k + 1]",
        DRAWN + "[top-k-drawn]",
    ),
    Mutant(
        "top-p leaves out the token that reaches it",
        "mmspec/maths.py",
        "xp.cumulative_sum(ordered, axis=-1) - ordered",
        "xp.cumulative_sum(ordered, axis=-1)",
        DRAWN + "[top-p-drawn]",
    ),
    Mutant(
        "a rejected token is kept",
        "mmspec/loop.py",
        "< verdict.accept[node]",
        "<= verdict.accept[node]",
        LOOP + "test_greedy_speculation_equals_the_target_alone[4]",
    ),
    Mutant(
        "the bonus token is an earlier one",
        "mmspec/loop.py",
        "verdict.fallback[last + 1]",
        "verdict.fallback[last]",
        LOOP + "test_greedy_speculation_equals_the_target_alone[4]",
    ),
    Mutant(
        "draws do not depend on the length",
        "mmspec/sampling.py",
        "for word in (length, ROLES[role], node):",
        "for word in (ROLES[role], node):",
        LOOP + "test_uniforms_depend_on_every_key_and_stay_below_one",
    ),
    # Ends
    Mutant(
        "a token follows the stop token",
        "mmspec/loop.py",
        "return tokens[: i + 1]",
        "return tokens[: i + 2]",
        LOOP + "test_nothing_follows_a_stop_token",
    ),
    Mutant(
        "a stopped round is committed whole",
        "mmspec/loop.py",
        "kept = path[: len(tokens) - 1]",
        "kept = path",
        LOOP + "test_nothing_follows_a_stop_token",
    ),
    Mutant(
        "the draft may use the whole budget",
        "mmspec/loop.py",
        "lengths.choose(left - 1)",
        "lengths.choose(left)",
        LOOP + "test_the_budget_is_exact",
    ),
    Mutant(
        "a rewound n-gram is still found",
        "mmspec/ngram.py",
        "                    self._ends[gram].pop()",
        "                    pass",
        NGRAM + "test_whatever_came_before_it_finds_what_a_search_finds",
    ),
    Mutant(
        "the suffix finds itself",
        "mmspec/ngram.py",
        "range(self._indexed + 1, self.length)",
        "range(self._indexed + 1, self.length + 1)",
        NGRAM + "test_what_followed_is_proposed[loop]",
    ),
    Mutant(
        "drafting that loses is not stopped",
        "mmspec/lengths.py",
        "return not k or lost + risk <=",
        "return True or lost + risk <=",
        LENGTHS + "test_where_drafting_loses_it_ends_within_three_percent_of_plain",
    ),
    Mutant(
        "a cost once seen is believed",
        "mmspec/lengths.py",
        "return plain if self.count(k) == 1 and seconds > 2 * plain else seconds",
        "return seconds",
        LENGTHS + "test_a_first_round_that_warms_up_does_not_decide",
    ),
    Mutant(
        "the stop token counts as held",
        "mmspec/session.py",
        "ids = tuple(takewhile(lambda token: token not in stop, said))",
        "ids = tuple(said)",
        SESSION + "test_a_stop_token_is_not_held_as_part_of_the_answer",
    ),
    # Sessions
    Mutant(
        "the target is not rewound",
        "mmspec/session.py",
        "        self.target.rewind(self._track.end)\n",
        "",
        SESSION + "test_going_back_feeds_nothing_and_going_on_elsewhere_only_that",
    ),
    Mutant(
        "the drafter is not rewound",
        "mmspec/session.py",
        "        self.drafter.rewind(self.track.end)\n",
        "",
        SESSION + "test_going_back_feeds_nothing_and_going_on_elsewhere_only_that",
    ),
    Mutant(
        "what is no longer held stays recorded",
        "mmspec/session.py",
        "        self._track.cut(len(chunks) - len(fresh))\n",
        "",
        SESSION + "test_a_fault_at_any_call_leaves_what_a_cold_run_has",
    ),
    Mutant(
        "an empty answer is fed",
        "mmspec/session.py",
        "if chunk.parts:  #",
        "if True:  #",
        SESSION + "test_an_empty_answer_is_a_chunk_without_tokens",
    ),
    Mutant(
        "all images are equal",
        "mmspec/images.py",
        "    digest: str\n",
        "    digest: str = field(compare=False)\n",
        CHAT + "test_another_image_under_the_same_text_is_another_prompt",
    ),
    Mutant(
        "all images are equal, on real caches",
        "mmspec/images.py",
        "    digest: str\n",
        "    digest: str = field(compare=False)\n",
        CHATS + "test_the_same_text_with_another_image_reuses_nothing_of_the_first",
    ),
    Mutant(
        "a question that could not begin stays open",
        "mmspec/chat.py",
        "                self.conversation.turns[:] = turns\n",
        "                pass\n",
        CHAT + "test_what_breaks_before_an_answer_begins_leaves_the_conversation",
    ),
    Mutant(
        "BOS starts every turn",
        "mmspec/conversation.py",
        "if not earlier and ids[:1] != tokenizer.prefix:",
        "if ids[:1] != tokenizer.prefix:",
        "tests/core/test_conversation.py",
    ),
    Mutant(
        "BOS is left out",
        "mmspec/conversation.py",
        "if not earlier and ids[:1] != tokenizer.prefix:",
        "if earlier and ids[:1] != tokenizer.prefix:",
        ORACLE + "test_a_first_prompt_is_what_transformers_processor_makes",
    ),
    # The benchmark
    Mutant(
        "a method profits from what another computed",
        "mmspec/bench/suite/arms.py",
        "        self.engine.forget()\n",
        "",
        RUNNER + "test_each_method_pays_for_the_picture_and_its_caption",
    ),
    Mutant(
        "half a sample counts as a whole one",
        "mmspec/bench/suite/runner.py",
        "if item is None or len(last) ==",
        "if item is None or len(last) <=",
        RUNNER + "test_wherever_a_kill_cuts_the_file_resuming_completes_it",
    ),
    Mutant(
        "a differing answer counts as identical",
        "mmspec/bench/suite/record.py",
        "identical = said.answer.token_ids == plain.answer.token_ids",
        "identical = len(said.answer.token_ids) == len(plain.answer.token_ids)",
        RUNNER + "test_a_difference_is_placed_and_what_follows_it_is_not_compared",
    ),
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
    # Looking at images
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
        ADAPTIVE + "test_weights_are_those_of_the_whole_history",
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
    # PyTorch
    Mutant(
        "torch: a rewound target keeps its keys",
        TORCH + "target.py",
        "State(length, min(self._state.fed, length))",
        "State(length, self._state.fed)",
        SEQUENCES + "test_a_target_rewound_anywhere_continues_like_a_cold_one",
    ),
    Mutant(
        "torch: a rewound drafter keeps its keys",
        TORCH + "drafter.py",
        "self._described(length, min(self._state.fed, length))",
        "self._described(length, self._state.fed)",
        SEQUENCES + "test_a_drafter_rewound_anywhere_continues_like_a_cold_one",
    ),
    Mutant(
        "torch: keys of rejected tokens stay",
        TORCH + "drafter.py",
        "kept = state.columns + min(len(path), state.drafted - 1)",
        "kept = state.columns + state.drafted - 1",
        SEQUENCES + "test_rows_of_a_batch_draft_what_each_drafts_alone",
    ),
    Mutant(
        "torch: padding is seen",
        TORCH + "drafter.py",
        "shade = hidden(self._llama.dtype)",
        "shade = 0.0",
        SEQUENCES + "test_rows_of_a_batch_draft_what_each_drafts_alone",
    ),
    Mutant(
        "torch: padding counts as positions",
        TORCH + "drafter.py",
        "seen = [row.lengths(end)[start:] for row in self._rows]",
        "seen = [list(range(start + 1, end + 1)) for row in self._rows]",
        SEQUENCES + "test_rows_of_a_batch_draft_what_each_drafts_alone",
    ),
    Mutant(
        "torch: the next column is seen",
        TORCH + "llama.py",
        ".triu_(start + 1)",
        ".triu_(start + 2)",
        ORACLE + "test_a_drafted_answer_is_generates_own",
    ),
    Mutant(
        "torch: pooling takes columns for rows",
        TORCH + "llava.py",
        "rows.view(side, grid // side, side, grid // side, -1)",
        "rows.view(grid // side, side, grid // side, side, -1)",
        FEATURES + "test_pooling_averages_squares_of_the_grid",
    ),
    Mutant(
        "torch: a token that was not drawn has the target's own probability as q",
        TORCH + "target.py",
        "q = maths.point_mass(xp, draft.ids, p[:-1]) if draft.q is None else draft.q",
        "q = p[:-1] if draft.q is None else draft.q",
        PAIRS + "[torch-T1-argmax-1]",
    ),
    Mutant(
        "torch: two reads in a round",
        TORCH + "target.py",
        "numbers = iter(torch.cat([part.float() for part in parts]).tolist())",
        "numbers = iter([each for part in parts for each in part.float().tolist()])",
        SEQUENCES + "test_a_round_reads_from_the_device_once",
    ),
    # MLX
    Mutant(
        "torch: fitted weights are not drafted with",
        TORCH + "drafter.py",
        "blend = tally.weights(blend)",
        "tally.weights(blend)",
        DENSE,
    ),
    Mutant(
        "mlx: a rewound target keeps its keys",
        MLX + "target.py",
        "fed = min(self._fed, max(length - 1, 0))",
        "fed = self._fed",
        SEQUENCES + "test_a_target_rewound_anywhere_continues_like_a_cold_one",
    ),
    Mutant(
        "mlx: a rewound drafter keeps its keys",
        MLX + "drafter.py",
        "self._columns.cut(length), min(self._fed, max(length - 1, 0))",
        "self._columns.cut(length), self._fed",
        SEQUENCES + "test_a_drafter_rewound_anywhere_continues_like_a_cold_one",
    ),
    Mutant(
        "mlx: keys of rejected tokens stay",
        MLX + "drafter.py",
        "kept = min(len(path), drafted - 1) if drafted else None",
        "kept = drafted - 1 if drafted else None",
        SEQUENCES + "test_rows_of_a_batch_draft_what_each_drafts_alone",
    ),
    Mutant(
        "mlx: padding is seen",
        MLX + "columns.py",
        "self._padded = not seen.all()",
        "self._padded = False",
        SEQUENCES + "test_rows_of_a_batch_draft_what_each_drafts_alone",
    ),
    Mutant(
        "mlx: padding counts as positions",
        MLX + "columns.py",
        "return [int(row) + beyond for row in self._seen[:, :columns].sum(axis=1)]",
        "return [columns for _ in self._seen]",
        SEQUENCES + "test_rows_of_a_batch_draft_what_each_drafts_alone",
    ),
    Mutant(
        "mlx: the next column is seen",
        MLX + "llama.py",
        "mx.arange(at + n) <= mx.expand_dims(mx.arange(at, at + n), 1)",
        "mx.arange(at + n) <= mx.expand_dims(mx.arange(at, at + n), 1) + 1",
        ORACLE + "test_a_drafted_answer_is_generates_own",
    ),
    Mutant(
        "mlx: pooling takes columns for rows",
        MLX + "llava.py",
        "rows.reshape(side, block, side, block, -1)",
        "rows.reshape(block, side, block, side, -1)",
        FEATURES + "test_pooling_averages_squares_of_the_grid",
    ),
    Mutant(
        "mlx: a token that was not drawn has the target's own probability as q",
        MLX + "target.py",
        "q = maths.point_mass(xp, drafted, p[:-1]) if not draft.q else mx.concatenate(draft.q)",
        "q = p[:-1] if not draft.q else mx.concatenate(draft.q)",
        PAIRS + "[mlx-T1-argmax-1]",
    ),
    Mutant(
        "mlx: fitted weights are not drafted with",
        MLX + "drafter.py",
        "mixture = tally.weights(mixture)",
        "tally.weights(mixture)",
        DENSE,
    ),
    # Imports
    Mutant(
        "the core imports a framework",
        "mmspec/loop.py",
        "from time import perf_counter\n",
        "from time import perf_counter\n\nimport torch\n",
        "tests/test_imports.py::test_files_import_only_what_the_table_allows",
    ),
]


def applied(mutant: Mutant, text: str) -> str:
    """The file's text with the mutant in it; ValueError where `old` does not stand once."""
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.file} holds its text {text.count(mutant.old)}x")
    return text.replace(mutant.old, mutant.new)


def is_caught(mutant: Mutant, copy: Path) -> bool:
    """Whether the named test fails on the copy with the mutant in it."""
    file = copy / mutant.file
    sound = file.read_text(encoding="utf-8")
    file.write_text(applied(mutant, sound), encoding="utf-8")
    try:
        return fails([mutant.test], copy)
    finally:
        file.write_text(sound, encoding="utf-8")


def fails(tests: list[str], copy: Path) -> bool:
    """Whether any of `tests` fails; RuntimeError where they cannot even be collected."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    paths = os.pathsep.join(map(str, _roots(copy)))
    environment = os.environ | {"PYTHONPATH": paths}
    run = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    if run.returncode not in (0, 1):
        raise RuntimeError(f"{tests} did not run:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return run.returncode == 1


def _roots(copy: Path) -> list[Path]:
    return [copy, copy / "backends", copy / "cli", copy / "models"]


def copied(folder: Path) -> Path:
    """Copy what the tests need of the tree to `folder`."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=UNNEEDED)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def main(names: list[str]) -> int:
    """Try the mutants whose names contain any of `names`, all where none is given."""
    chosen = [each for each in MUTANTS if not names or any(name in each.name for name in names)]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        if fails(sorted({mutant.test for mutant in chosen}), copy):
            raise RuntimeError("a test fails without any mutant: nothing can be told from it")
        for mutant in chosen:
            caught = is_caught(mutant, copy)
            survivors += not caught
            print("caught  " if caught else "SURVIVED", mutant.name, flush=True)  # noqa: T201
    print(f"{len(chosen) - survivors} of {len(chosen)} caught")  # noqa: T201
    return min(survivors, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
