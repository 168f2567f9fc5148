"""The speed measurement: pairing, order, spreads and shares, on arms whose times are known."""

import pytest

from mmspec.chat.options import Options
from mmspec.decoding.tree import Tree
from mmspec.diagnostics.prompts import user_prompt
from mmspec_bench.measure.speed import engine_method, measure
from mmspec_bench.measure.timing import Spread, Timing, rotated
from mmspec_bench.prompts import world_prompts
from support.stand_ins import quiet

PROMPTS = [user_prompt("one"), user_prompt("two")]


class FixedMethod:
    def __init__(self, name, seconds, log, tokens=(5, 6, 2)):
        self.name, self.seconds, self.log, self.tokens = name, iter(seconds), log, list(tokens)

    def answer(self, prompt):
        self.log.append((self.name, prompt.name))
        return Timing(self.tokens, 3, 2, 3, next(self.seconds), 0.5, depth=4, accepted=1)


def test_methods_are_paired_and_interleaved():
    log = []
    plain = FixedMethod("plain", [9, 1.0, 2.0, 3.0, 4.0], log)
    twice = FixedMethod("twice", [9, 0.5, 1.0, 1.0, 2.0], log)
    first, second = measure([plain, twice], PROMPTS, 2, quiet)
    warm, rest = log[:2], log[2:]
    assert warm == [("plain", "one"), ("twice", "one")]
    assert rest == [
        *[("plain", "one"), ("twice", "one"), ("twice", "two"), ("plain", "two")],
        *[("plain", "one"), ("twice", "one"), ("twice", "two"), ("plain", "two")],
    ]
    assert first.speed_up == Spread(1.0, 1.0, 1.0)
    assert second.speed_up == Spread(2.0, 2.0, 3.0)
    assert second.tokens_per_second == Spread(3.0, 1.5, 6.0)
    assert (second.tokens_per_round, second.acceptance_rate) == (1.5, 0.25)


def test_the_speed_up_is_a_median_of_pairs_and_not_a_ratio_of_medians():
    plain = FixedMethod("plain", [9, 1.0, 10.0, 2.0], [])
    other = FixedMethod("other", [9, 1.0, 1.0, 4.0], [])
    _, result = measure([plain, other], PROMPTS[:1], 3, quiet)
    assert result.speed_up.median == 1.0
    assert result.speed_up_overall == pytest.approx(13.0 / 6.0)


def test_other_tokens_are_reported():
    methods = [
        FixedMethod("plain", [1.0] * 9, []),
        FixedMethod("off", [1.0] * 9, [], tokens=(5, 7, 2)),
    ]
    assert [each.identical for each in measure(methods, PROMPTS, 1, quiet)] == [2, 0]


def test_rotation_starts_with_each_in_turn():
    assert ["".join(rotated("abc", n)) for n in range(4)] == ["abc", "bca", "cab", "abc"]


def test_spread_text():
    assert Spread.of([3.0, 1.0, 2.0]).text(1) == "2.0 [1.0..3.0]"
    assert Spread.of([3.0]).text(1) == "3.0"


def test_of_a_tree_levels_could_have_been_kept_not_nodes(pair_engine):
    options = Options(max_new_tokens=12, tree=Tree((3, 2)))
    timing = engine_method(pair_engine, options, "M", 5).answer(world_prompts(1, size=32)[0])
    assert 0 < timing.depth <= 2 * timing.rounds


def test_a_method_times_decoding_alone(pair_engine):
    method = engine_method(pair_engine, Options(max_new_tokens=8), "none", 1)
    timing = method.answer(world_prompts(1, size=32)[0])
    assert (timing.timed_tokens, timing.rounds, timing.depth) == (8, 8, 0)
    assert timing.seconds > timing.first_token_seconds / 100 > 0
