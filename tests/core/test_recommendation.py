"""What is recommended for a machine's memory, and the published figures behind it."""

import pytest

from mmspec.checkpoints.cards import card
from mmspec.checkpoints.manifest import cache_bytes, step_bytes, weight_bytes
from mmspec.diagnostics.recommendation import USABLE, milliseconds, recommendations

SPEEDS = {
    "qwen3-vl-2b": 176.7,
    "qwen3-vl-4b": 93.9,
    "qwen3-vl-8b": 62.6,
    "qwen3-vl-32b": 17.5,
    "qwen2.5-vl-3b": 106.8,
}
"""Published tokens a second in 4 bits on an M1 Ultra; the last was not used for the fit."""


@pytest.mark.parametrize("name", SPEEDS)
def test_times_are_those_that_were_published(name):
    assert 1000 / milliseconds(card(name).model, 4) == pytest.approx(SPEEDS[name], rel=0.07)


def best(gigabytes):
    return {each.target: each for each in recommendations(gigabytes * 2**30)}


def test_an_8_bit_target_with_a_4_bit_draft_pays_where_both_fit():
    chosen = best(24)["qwen3-vl-8b"]
    assert (chosen.bits, chosen.draft, chosen.pays) == (8, "qwen3-vl-2b", True)
    assert 1.4 < chosen.speedup[0] <= chosen.speedup[1] < 2.2
    assert recommendations(24 * 2**30)[0] == chosen
    assert chosen.line().startswith("qwen3-vl-8b in 8 bits with qwen3-vl-2b in 4 bits: 1.")


def test_a_4_bit_8b_wants_a_head():
    chosen = best(16)["qwen3-vl-8b"]
    assert (chosen.bits, chosen.draft, chosen.pays) == (4, None, False)
    assert "n-grams or a head" in chosen.reason
    assert chosen.line() == "qwen3-vl-8b in 4 bits, no draft: as fast as plain decoding"


def test_whole_models_pay_for_the_largest():
    assert best(48)["qwen3-vl-32b"].draft == "qwen3-vl-2b"
    assert best(64)["qwen3-vl-32b"].bits == 8


@pytest.mark.parametrize("gigabytes", [0, 1, 4, 8, 16, 24, 32, 64, 192])
def test_what_is_recommended_fits_and_what_pays_comes_first(gigabytes):
    found = recommendations(gigabytes * 2**30)
    assert all(each.bytes <= USABLE * gigabytes * 2**30 for each in found)
    assert [each.pays for each in found] == sorted((each.pays for each in found), reverse=True)
    for each in found:
        models = [(card(each.target).model, each.bits)]
        models += [(card(each.draft).model, 4)] if each.draft else []
        assert each.bytes > sum(weight_bytes(*model) for model in models)
    assert bool(found) == (gigabytes >= 8)


def test_a_draft_that_sees_nothing_is_worth_less():
    both = best(24)
    assert both["qwen3-4b"].speedup > both["qwen3-vl-4b"].speedup


def test_sizes_are_sums_over_shapes():
    model = card("qwen3-0.6b").model
    text = model.text
    width, keys, queries = text.hidden_size, 8 * 128, 16 * 128
    layer = width * (2 * keys + 2 * queries + 3 * text.intermediate_size)
    matrices = 28 * layer + text.vocab_size * width
    norms = 28 * (2 * width + 2 * 128) + width
    assert weight_bytes(model, 16) == 2 * (matrices + norms)
    assert weight_bytes(model, 8) == matrices + matrices // 64 * 4 + 2 * norms
    assert weight_bytes(model, 4) == matrices // 2 + matrices // 64 * 4 + 2 * norms
    assert step_bytes(model, 16) == weight_bytes(model, 16) - 2 * width
    assert cache_bytes(text, 10) == 10 * 28 * 2 * keys * 2
