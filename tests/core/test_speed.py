"""The speed measurement: pairing, order, spreads and shares, on arms whose times are known."""

import json
from dataclasses import replace

import pytest

from mmspec.chat.options import Options
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.tree import Tree
from mmspec.diagnostics.prompts import user_prompt
from mmspec_bench.measure.costs import Costs, costs
from mmspec_bench.measure.speed import engine_method, measure, speed
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


def test_ratios():
    costs = Costs(5, 0.012, 0.018, {"M": 0.001, "MTCP": 0.0016})
    assert costs.ratios == pytest.approx(
        {"target step / draft step": 12, "4 branches / 1": 1.6, "6 target rows / 1": 1.5}
    )


def test_the_parts_of_a_round_are_timed_with_the_rows_that_decode(pair_engine, monkeypatch):
    rows, opened = ExactRows(8, 8), []
    engine, model = replace(pair_engine, exactness={"on": rows}), type(pair_engine.target.model)
    original = model.open_target

    def recorded(self, sampling, exact=None):
        opened.append(exact)
        return original(self, sampling, exact)

    monkeypatch.setattr(model, "open_target", recorded)
    costs(engine, world_prompts(1, size=32)[0], Options(gamma=2, exact="on"), repeats=1)
    assert opened[0] == rows  # later ones write captions


def test_a_whole_report_on_a_small_pair(pair_engine, few_timings):
    prompts = world_prompts(1, size=32)
    report = speed(
        pair_engine,
        prompts,
        Options(gamma=3, max_new_tokens=8),
        draftings=["M", "MTCP"],
        gammas=[2, "auto"],
        repeats=1,
        progress=quiet,
    )
    plain, *drafted = report.methods
    assert (plain.name, plain.tokens_per_round, plain.acceptance_rate) == ("plain", 1.0, 0.0)
    names = [f"{drafting} gamma {gamma}" for drafting in ("M", "MTCP") for gamma in (2, "auto")]
    assert [method.name for method in drafted] == names
    assert all(method.identical == method.answers == 1 for method in drafted)
    assert all(method.tokens_per_round > 1 for method in drafted[::2])
    assert set(report.costs.draft_step) == {"M", "MTCP"}
    record = json.loads(json.dumps(report.as_dict()))
    assert (record["exact"], record["exact_mode"], record["exact_rows"]) == (False, "auto", None)
    assert record["provenance"]["versions"]["torch"]
    assert record["ratios"]["4 branches / 1"] > 0


def test_of_a_tree_levels_could_have_been_kept_not_nodes(pair_engine):
    options = Options(max_new_tokens=12, tree=Tree((3, 2)))
    timing = engine_method(pair_engine, options, "M", 5).answer(world_prompts(1, size=32)[0])
    assert 0 < timing.depth <= 2 * timing.rounds


def test_a_method_times_decoding_alone(pair_engine):
    method = engine_method(pair_engine, Options(max_new_tokens=8), "none", 1)
    timing = method.answer(world_prompts(1, size=32)[0])
    assert (timing.timed_tokens, timing.rounds, timing.depth) == (8, 8, 0)
    assert timing.seconds > timing.first_token_seconds / 100 > 0
