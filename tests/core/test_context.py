"""Costs by context length, on a small pair."""

from dataclasses import replace

import pytest

from mmspec.decoding.exact_rows import ExactRows
from mmspec.ground.errors import UsageError
from mmspec_bench.measure.context import context
from support.stand_ins import quiet


def room(model):
    return model.config.text.max_position_embeddings


def test_each_length_is_measured_once_per_pass_and_drafts_end_with_their_positions(pair_engine):
    most = room(pair_engine.target.model) - 3
    lengths = [most, 8, 40]
    said = []
    report = context(pair_engine, lengths, 2, "off", passes=2, repeats=2, progress=said.append)
    assert [each.tokens for each in report.costs] == [8, 40, most]
    assert len(said) == 9
    assert all(min(each.prefill, each.step, each.block) > 0 for each in report.costs)
    drafted = [each.draft is not None for each in report.costs]
    assert drafted == [each.tokens + 2 <= room(pair_engine.draft.model) for each in report.costs]
    assert drafted[0]


def test_exact_rows_are_measured_where_asked(pair_engine):
    engine = replace(pair_engine, exactness={"on": ExactRows(1, 8)})
    report = context(engine, [8], 2, "on", passes=1, repeats=1, progress=quiet)
    assert report.exact


def test_a_length_past_the_positions_is_refused(pair_engine):
    most = room(pair_engine.target.model) - 3
    with pytest.raises(UsageError, match=f"has room for {most}"):
        context(pair_engine, [most + 1], 2, progress=quiet)
