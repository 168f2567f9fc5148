"""Measures over rows, by hand and by numpy."""

from types import SimpleNamespace

import pytest

from mmspec.checkpoints.head_config import HeadConfig
from mmspec_bench.suite import metrics
from mmspec_bench.suite.drafts import drafted_share
from support.scripted_engine import SEES
from support.suite_row import plain, row, seconds

# Two answers: rounds (drafted, accepted, emitted) of gamma 3.
SHORT = row("a/0", rounds=[(3, 3, 4), (1, 0, 1)], seconds=seconds(1.0, 4.0))
LONG = row("b/0", rounds=[(3, 1, 2), (3, 0, 1), (3, 2, 2)], seconds=seconds(5.0, 6.0))
ROWS = [SHORT, LONG]
PLAIN = [plain("a/0", 5, seconds=seconds(2.0, 5.0)), plain("b/0", 5, seconds=seconds(4.0, 5.0))]


def test_block_efficiency_pools_rounds_or_averages_answers():
    assert metrics.block_efficiency(ROWS) == 10 / 5
    assert metrics.summarise(ROWS, [])["macro_block_efficiency"] == pytest.approx(
        (5 / 2 + 5 / 3) / 2
    )


def test_of_a_tree_one_node_of_a_level_can_be_accepted():
    tree = row(rounds=[(20, 3, 4, 3), (20, 1, 2, 3), (6, 0, 1, 2)])
    assert metrics.summarise([tree], [])["acceptance_rate"] == 4 / 8
    assert metrics.acceptance_by_position([tree]) == [2 / 3, 1 / 3, 1 / 2]
    assert metrics.acceptance_by_position([tree], conditional=True) == [2 / 3, 1 / 2, 1 / 1]
    assert metrics.block_efficiency([tree]) == 7 / 3


def test_speed_ups_pair_the_same_questions():
    paired = metrics.pairs([*ROWS, row("only here/0")], PLAIN[::-1])
    assert [(a.key, b.key) for a, b in paired] == [(p.key, p.key) for p in PLAIN]
    # Decoding: 5/1 over 5/2, and 5/5 over 5/4.
    assert metrics.paired_speed_ups(paired, "decode") == pytest.approx([2.0, 0.8])
    assert metrics.global_speed_up(paired, "decode") == pytest.approx((10 / 6) / (10 / 6))
    assert metrics.paired_speed_ups(paired, "total") == pytest.approx([5 / 4, 5 / 6])
    assert metrics.global_speed_up(paired, "total") == pytest.approx(1.0)


def test_what_was_not_compared_counts_neither_way():
    rows = [row(identical=True), row(identical=False), row(identical=None), row(identical=True)]
    assert metrics.summarise(rows, [])["identical"] == pytest.approx(2 / 3)
    assert metrics.summarise([row()], [])["identical"] is None


def test_the_memory_bound_speed_up_is_gagranis_formula_for_full_rounds():
    """tau / (1 + gamma c): 15 tokens in 5 rounds of 4 drafted ones, of 2 % of the parameters."""
    rounds = [(4, 2, 3)] * 5
    whole = metrics.summarise([row(rounds=rounds, drafted_share=0.02)], [])
    assert whole["mbsu"] == pytest.approx(3 / (1 + 4 * 0.02))
    tree = row(rounds=[(12, 2, 3, 4)] * 5, drafted_share=0.02)
    assert metrics.summarise([tree], [])["mbsu"] == whole["mbsu"], "a level is a forward"
    assert metrics.summarise([plain(drafted_share=0.0)], [])["mbsu"] == 1


def test_a_drafted_token_reads_a_decoder_or_a_head_and_the_output_matrix():
    config = SimpleNamespace(model=SimpleNamespace(config=SEES))
    text = SEES.text
    v, h = text.vocab_size, text.hidden_size
    layer = 4 * h * h + 3 * h * text.intermediate_size + 2 * h
    decoder = 2 * v * h + layer + h
    models = SimpleNamespace(target=config, draft=config, head=None)
    assert drafted_share(models) == 1
    assert drafted_share(SimpleNamespace(target=config, draft=None, head=None)) == 0
    eagle = HeadConfig("eagle", h, v, layer=text)
    head = SimpleNamespace(head=SimpleNamespace(config=eagle))
    own = layer - h + 2 * h * h + h  # without an input norm; fc and its bias
    share = drafted_share(SimpleNamespace(target=config, draft=None, head=head))
    assert share == pytest.approx((own + v * h) / decoder)
