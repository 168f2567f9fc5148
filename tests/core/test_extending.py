"""The drafter of docs/extending.md, installed as a package beside this one, drafts in a chat."""

import io
import json
import re
import sys
from dataclasses import replace
from importlib import invalidate_caches
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from mmspec.chat.engine import load
from mmspec.chat.first_costs import measure_first_costs
from mmspec.chat.options import Options
from mmspec.chat.plugin_head import plugin_head
from mmspec.chat.plugins import is_kind
from mmspec.drafters.heads.drafter import HeadDrafter
from mmspec.ground.entry_points import any_plugin_errors
from mmspec.ground.errors import BackendError, MmspecError, PluginError, UsageError
from mmspec_bench.suite.rows import ROWS, read_rows
from mmspec_bench.suite.run_folder import read_provenance
from mmspec_cli.main import main
from support import extending_page
from support.extending_page import PAGE, block
from support.scripted_engine import picture

CODE = block("python", "class RepeatHead")


@pytest.fixture
def installed(tmp_path):
    """The page's code where pip would have put it."""
    with extending_page.installed(tmp_path / "site", ("mmspec.drafters",), repeat_drafter=CODE):
        yield


@pytest.fixture
def page():
    """What the page's code defines."""
    defined = {}
    exec(CODE, defined)
    return SimpleNamespace(**defined)


@pytest.fixture
def directory(tmp_path):
    """The page's draft/, without weights."""
    directory = tmp_path / "draft"
    directory.mkdir()
    config = re.search(r"draft/config.json +({.*?})", PAGE)[1]
    (directory / "config.json").write_text(config)
    return directory


def test_it_stands_beside_other_drafts_in_one_table_and_a_report_needs_no_plug_in(
    installed, directory, pair_paths, tmp_path, monkeypatch, capsys
):
    target, draft = map(str, pair_paths)
    drafts = ["--draft", draft, "--draft", directory, "--methods", "M,repeat,none"]
    few = ["--tasks", "caption", "--limit", "1", "--max-new-tokens", "8"]
    models = ["--model", target, "--backend", "torch"]
    out = tmp_path / "out"
    assert main([*map(str, ["bench", "run", *models, *drafts, *few, "--out", out])]) == 0
    rows = {row.method: row for row in read_rows(out / ROWS)}
    assert any(each.drafted > each.accepted for each in rows["repeat"].rounds)
    assert rows["repeat"].identical
    assert rows["M"].branches == ["M"]
    models = read_provenance(out)["models"]
    assert [models[role]["name"] for role in models] == [target, draft, str(directory)]
    monkeypatch.delitem(sys.modules, "repeat_drafter")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if str(tmp_path) not in place])
    invalidate_caches()
    assert not is_kind("repeat")
    capsys.readouterr()
    assert main(["bench", "report", str(out)]) == 0
    assert any(line.startswith("repeat ") for line in capsys.readouterr().out.splitlines())


@pytest.fixture
def changed(installed, directory, pair_paths, tmp_path):
    """Function that answers with other code in the place of the page's."""

    def answer(code, **options):
        (tmp_path / "site" / "repeat_drafter.py").write_text(code)
        load(str(pair_paths[0]), directory, backend="torch").chat(Options(**options)).reply("Hi")

    return answer


MISSING = {
    "import no_such_module": "no_such_module, which is not installed: run pip install no_such_mod",
    # as transformers does, which names no module
    "raise ModuleNotFoundError('Could not import Head')": "a package (Could not import Head) that "
    "is not installed: run pip install PACKAGE",
}


@pytest.mark.parametrize("code", MISSING)
def test_a_module_that_a_package_lacks_is_named(changed, code):
    needs = re.escape(f"repeat (mmspec.drafters) needs {MISSING[code]}")
    with pytest.raises(BackendError, match=needs):
        changed(code)


FAULTS = {
    "no such function": ("def load(", "def other(", "has no attribute 'load'"),
    "no Python": ("def load(", "deaf load(", "SyntaxError: "),
    "loads with other arguments": ("Path, model: Model", "Path", "load() takes 1 positional"),
    "opens with other arguments": (", sampling: Sampling, tree", ", tree", "open_drafter() takes"),
    "drafts with other arguments": ("plan: Plan, noise: Noise", "plan: Plan", "draft() takes 2"),
    "fails to extend": ("= [*self.tokens, *segments[0]", "= 1 / 0 * [segments[0]", "ZeroDivision"),
    "fails to commit": ("= [*self.tokens, *tokens]", "= tokens[9]", "IndexError: "),
    "fails to rewind": ("self.tokens[:length]", "self.tokens.a", "no attribute 'a'"),
    "drafts nothing": ("self.tokens[-1:] * plan", "[] * plan", "DraftError: a HostDraft has no"),
    "fails to count": ("len(self.tokens)\n", "len(3)\n", "object of type 'int' has no len()"),
}


@pytest.mark.parametrize(("old", "new", "reason"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_a_plug_in_has_its_name_and_place(changed, old, new, reason):
    assert old in CODE
    with pytest.raises(PluginError) as failed:
        changed(CODE.replace(old, new))
    said, names = str(failed.value), r"(the drafter repeat|repeat \(mmspec.drafters\))"
    assert re.match(f"{names} failed in repeat_drafter", said)
    assert reason in said
    assert said.endswith("use another, or tell its author")
    if "fails" in new or "self" in old or "len" in old:
        line = CODE[: CODE.index(old)].count("\n") + 1
        assert f"repeat_drafter, line {line} (" in said
    assert reason in f"{type(failed.value.__cause__).__name__}: {failed.value.__cause__}"


def test_a_fault_of_the_caller_s_own_function_is_no_plug_in_s(installed):
    import repeat_drafter

    faulty = "def call(function):\n    function()\n    raise KeyError"
    exec(faulty, vars(repeat_drafter))
    with pytest.raises(PluginError, match="failed in repeat_drafter, line 3"), any_plugin_errors():
        repeat_drafter.call(int)
    with pytest.raises(ZeroDivisionError), any_plugin_errors():
        repeat_drafter.call(lambda: 1 / 0)


REFUSED = {
    "counts columns twice": ("len(self.tokens)\n", "2 * len(self.tokens)\n", "its length is "),
    "drafts no token of the target's": (
        *("self.tokens[-1:] *", "[10**6] *"),
        "a HostDraft has the token 1000000, and the target's are 0 to ",
    ),
    "drafts too many": ("* plan.gamma", "* 9 * plan.gamma", "tokens on a path, and the plan"),
}


@pytest.mark.parametrize(("old", "new", "reason"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("gamma", [3, "auto"])
def test_a_draft_or_a_length_that_is_wrong_has_the_drafter_s_name(changed, old, new, reason, gamma):
    assert old in CODE
    with pytest.raises(MmspecError, match=f"^the drafter repeat: .*{reason}"):
        changed(CODE.replace(old, new), gamma=gamma)


CAPTIONING = """
class Namer:
    def caption(self, picture):
        return picture.names


def load(directory, device):
    return Namer()
"""
POINT = "[mmspec.captioners]\nnamer = namer:load\n"


def test_a_fault_of_a_captioner_is_one_line_with_its_name_and_a_chat_goes_on(
    installed, pair_paths, tmp_path, capsys, monkeypatch
):
    site = tmp_path / "site"
    (site / "namer.py").write_text(CAPTIONING)
    (site / "other-1.0.dist-info" / "entry_points.txt").write_text(POINT)
    (tmp_path / "namer").mkdir()
    (tmp_path / "namer" / "config.json").write_text('{"model_type": "namer"}')
    picture(1).image.save(tmp_path / "a.png")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{tmp_path}/a.png which?\nwhich?"))
    target, draft = map(str, pair_paths)
    models = ["--model", target, "--draft", draft, "--backend", "torch", "--drafting", "MC"]
    talk = ["chat", *models, "--captioner", str(tmp_path / "namer"), "--max-new-tokens", "4"]
    assert main([*talk, "--json"]) == 2
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    [failed, answered] = map(json.loads, shown.out.splitlines())
    place = "namer (mmspec.captioners) failed in namer, line 4 (AttributeError: "
    assert failed["error"].startswith(place)
    assert answered["text"]


@pytest.mark.parametrize("kind", ["MT", "t", "", "lookup", "none", "a+b", 5, None])
def test_a_kind_that_names_another_drafting_is_refused(pair_paths, page, kind):
    page.RepeatHead.config = replace(page.RepeatHead.config, kind=kind)
    with pytest.raises(UsageError, match=re.escape(f"the kind of `draft` is {kind!r}: give a")):
        load(str(pair_paths[0]), page.RepeatHead(), backend="torch")


@pytest.mark.parametrize(
    "member",
    ["RepeatHead.config", "RepeatHead.open_drafter"]
    + [f"RepeatDrafter.{name}" for name in ("length", "extend", "rewind", "draft", "commit")],
)
def test_a_member_that_is_missing_is_named_on_loading(pair_paths, page, member, monkeypatch):
    monkeypatch.setattr("mmspec.chat.engine.measure_first_costs", measure_first_costs)
    owner, name = member.split(".")
    delattr(getattr(page, owner), name)
    with pytest.raises(UsageError, match=f"is a {owner} without {name}: give a"):
        load(str(pair_paths[0]), page.RepeatHead(), backend="torch")


def test_a_head_without_a_kind_is_refused(pair_paths, page):
    page.RepeatHead.config = {}
    with pytest.raises(UsageError, match="`config` of `draft` is a dict: give a"):
        load(str(pair_paths[0]), page.RepeatHead(), backend="torch")


def test_an_object_drafts_without_a_package_or_a_directory(pair_paths, page):
    page.RepeatHead.config = replace(page.RepeatHead.config, kind="mine")
    own = page.RepeatHead()
    with load(str(pair_paths[0]), own, backend="torch") as engine:
        options = Options(max_new_tokens=12)
        answers = {
            drafting: engine.chat(replace(options, drafting=drafting)).reply("What?", picture(1))
            for drafting in ("auto", "mine", "none")
        }
        for other in ("other", "mine+other"):
            with pytest.raises(UsageError, match="is a head of the kind mine: use"):
                engine.chat(Options(drafting=other))
    assert answers["auto"].token_ids == answers["mine"].token_ids == answers["none"].token_ids
    assert [it.drafting.spec for it in answers.values()] == ["mine+lookup", "mine", "none"]
    with pytest.raises(UsageError, match="the draft mine is a head of the kind mine: use"):
        load(str(pair_paths[0]), own, backend="torch", options=Options(drafting="T"))
    with pytest.raises(UsageError, match="`draft` is a int without config, open_drafter: give a n"):
        load(pair_paths[0], 3, backend="torch")
    with pytest.raises(UsageError, match="`model` is a int: give a name, a path or another"):
        load(3, backend="torch")


def test_a_fault_in_a_class_of_mmspec_s_that_a_plug_in_uses_is_the_plug_in_s(pair_paths, page):
    own = page.RepeatHead()
    with load(str(pair_paths[0]), own, backend="torch", ready=False) as engine:
        faulty = Mock(spec=HeadDrafter, length=0, extend=Mock(side_effect=ValueError("a shape")))
        own.open_drafter = Mock(return_value=faulty)
        with pytest.raises(PluginError, match="the drafter repeat failed in builtins"):
            engine.chat(Options(drafting="repeat")).reply("Hi")


def test_a_head_of_mmspec_s_own_given_as_an_object_stays_itself(page):
    own = page.RepeatHead
    own.__module__, own.config = "mmspec_torch.heads.head", replace(own.config, kind="mtp")
    head = own()
    assert plugin_head(head, "`draft`", "a mmspec.Head") is head
