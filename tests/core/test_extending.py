"""The drafter of docs/extending.md, installed as a package beside this one, drafts in a chat."""

import re
import sys
from dataclasses import replace
from importlib import invalidate_caches
from pathlib import Path

import pytest

from mmspec.chat.engine import load
from mmspec.chat.loaded_model import LoadedHead
from mmspec.chat.options import Options
from mmspec.errors import UsageError
from mmspec.plugins import is_kind, load_head
from mmspec_bench.suite.methods import read_method
from support import factory_layouts
from support.scripted_engine import picture, scripted_engine

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def block(language):
    """The page's first block of a language."""
    return re.search(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The page's code where pip would have put it."""
    site = tmp_path / "site"
    (site / "repeat_drafter-1.0.dist-info").mkdir(parents=True)
    (site / "repeat_drafter.py").write_text(block("python"))
    points = block("toml").replace('project.entry-points."mmspec.drafters"', "mmspec.drafters")
    information = site / "repeat_drafter-1.0.dist-info"
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: repeat-drafter\n")
    (information / "entry_points.txt").write_text(points.replace('"', ""))
    monkeypatch.syspath_prepend(site)
    invalidate_caches()
    yield
    sys.modules.pop("repeat_drafter", None)


@pytest.fixture
def engine(tmp_path):
    factory_layouts.write_tokenizer(tmp_path)
    return scripted_engine(tmp_path, draft=None)


@pytest.fixture
def headed(installed, engine, tmp_path):
    """An engine that was given the drafter's directory."""
    directory = tmp_path / "draft"
    directory.mkdir()
    factory_layouts.write_json(directory / "config.json", {"model_type": "repeat"})
    head = load_head(engine.backend, directory, engine.target.model)
    return replace(engine, head=LoadedHead("mine", directory, head))


def test_a_drafter_from_another_package_drafts_and_changes_nothing(headed):
    chat = headed.chat(Options(gamma=3, max_new_tokens=30))
    plain = headed.chat(Options(drafting="none", max_new_tokens=30))
    for text, images in (("What is this?", [picture(1)]), ("Again?", [])):
        assert chat.reply(text, images).token_ids == plain.reply(text, images).token_ids
    chat.conversation.undo()
    plain.conversation.undo()
    assert chat.reply("Why?").token_ids == plain.reply("Why?").token_ids
    assert chat.answer.drafting.spec == "repeat"
    assert chat.answer.statistics.drafted > 0


def test_an_object_drafts_without_a_package_or_a_directory(pair_paths):
    page = {}
    exec(block("python"), page)
    with load(str(pair_paths[0]), page["RepeatHead"](), backend="torch") as engine:
        drafted, plain = engine.chat(Options(max_new_tokens=12)), Options(drafting="none")
        answer = drafted.reply("What is this?", picture(1))
        expected = engine.chat(replace(plain, max_new_tokens=12)).reply("What is this?", picture(1))
    assert answer.token_ids == expected.token_ids
    assert answer.drafting.spec == "repeat"
    with pytest.raises(UsageError, match="the draft repeat is a repeat head: use repeat"):
        load(
            str(pair_paths[0]), page["RepeatHead"](), backend="torch", options=Options(drafting="T")
        )
    with pytest.raises(UsageError, match="`draft` is a int: give a name"):
        load(str(pair_paths[0]), 3, backend="torch")


def test_its_kind_is_a_drafting_and_a_method(headed):
    assert is_kind("repeat")
    method = read_method("repeat")
    assert (method.name, method.options(Options()).drafting) == ("repeat", "repeat")
    headed.chat(method.options(Options()))
    assert read_method("tree3x2:MSD").tree.branching == (3, 2)
    with pytest.raises(UsageError, match="a head has one view"):
        read_method("repeat:2,1")
    with pytest.raises(UsageError, match="is a repeat head: use repeat"):
        headed.chat(Options(drafting="T"))


def test_without_the_package_its_kind_is_unknown():
    assert not is_kind("repeat")
    with pytest.raises(UsageError):
        Options(drafting="repeat")
