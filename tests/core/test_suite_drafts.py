"""Several drafts of one target: each method finds the one that it asks for, or says which could."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from mmspec.chat.loaded_model import LoadedHead
from mmspec.checkpoints.head_config import HeadConfig
from mmspec.ground.errors import UsageError
from mmspec_bench.suite.drafts import engine_for
from mmspec_bench.suite.methods import read_method
from support import factory_layouts
from support.scripted_engine import BLIND, SEES, scripted_engine


@pytest.fixture
def engines(tmp_path):
    """Three drafts of one target: one without eyes, one that sees, and an MSD head."""
    factory_layouts.write_tokenizer(tmp_path)
    blind, sees = (scripted_engine(tmp_path, draft=config) for config in (BLIND, SEES))
    msd = SimpleNamespace(config=HeadConfig("msd", hidden_size=8, vocab_size=9))
    return [
        replace(blind, draft=replace(blind.draft, name="blind")),
        replace(sees, draft=replace(sees.draft, name="sees")),
        replace(blind, draft=None, head=LoadedHead("heads/msd", None, msd)),
    ]


@pytest.mark.parametrize(
    ("method", "place"),
    [
        *[("none", 0), ("lookup", 0)],
        *[("T@blind", 0), ("T@sees", 1), ("tree:msd", 2), ("msd@heads/msd", 2)],
    ],
)
def test_a_method_finds_its_draft(engines, method, place):
    assert engine_for(read_method(method), engines) is engines[place]


def test_two_that_can_are_named_and_so_is_what_none_can(engines):
    with pytest.raises(UsageError, match="more than one draft can do it: give MT@blind or MT@sees"):
        engine_for(read_method("MT"), engines)
    with pytest.raises(UsageError, match="no draft can do it, of blind, sees: name another"):
        engine_for(read_method("msd"), engines[:2])
    with pytest.raises(UsageError, match="unknown draft 'seas': use blind, sees or heads/msd"):
        engine_for(read_method("M@seas"), engines)
