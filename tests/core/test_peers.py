"""Peers in processes of their own: what a script reports, what failures become, what is counted."""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mmspec.checkpoints.head_config import read_head_config
from mmspec.ground.errors import BackendError, UsageError
from mmspec_bench.commands.peers import row
from mmspec_bench.compare import runner, script_io
from mmspec_bench.compare.methods import PeerMethod, peer_methods
from mmspec_bench.compare.runner import Agreement, compare, run_script, task_of
from mmspec_bench.compare.script_io import ProgramRun
from mmspec_bench.measure.timing import Spread, Timing, figures
from support.factory_heads import tiny_head
from support.stand_ins import quiet

TEXT = [{"text": "one "}, {"text": "two"}]


def task(**questions):
    return script_io.Task("model", None, "cpu", "float32", {}, 3, questions)


def reply(rate, first=1.0, tokens=(7, 7)):
    """An answer of `rate` tokens a second after the first one; None for an answer of one token."""
    timed = 4 if rate else 0
    return Timing(list(tokens), 5, 2, timed, timed / (rate or 1), first)


@pytest.mark.parametrize(
    ("code", "limit_seconds", "reason"),
    [
        ("import sys; sys.exit('a warning\\nno memory left')", 60, "status 1: no memory left"),
        ("print('it ends as if all were well')", 60, "ended without a report"),
        ("import time; time.sleep(60)", 0.2, "no answer within 0.2 seconds"),
    ],
)
def test_a_process_that_reports_nothing_is_a_reason(monkeypatch, code, limit_seconds, reason):
    monkeypatch.setattr(runner, "LIMIT_SECONDS", limit_seconds)
    with pytest.raises(BackendError, match=reason):
        run_script([sys.executable, "-c", code], task(text=[TEXT]))


def test_a_report_is_the_last_line():
    report = script_io.failure(task(text=[TEXT]), "no file \udce4.png")
    report.facts["scale"] = float("inf")
    code = f"print('noise'); print({json.dumps(asdict(report))!r})"
    assert run_script([sys.executable, "-c", code], task(text=[TEXT])) == report


def test_figures_are_of_pairs():
    fast, slow = reply(4.0, first=0.5), reply(2.0, first=1.0, tokens=(7, 8))
    result = figures("x", [(fast, slow), (fast, None), (slow, slow)])
    assert result.speed_up_overall == pytest.approx(4 / 3)
    assert result.tokens_per_second == Spread(4.0, 2.0, 4.0)
    assert result.speed_up == Spread(1.5, 1.0, 2.0)
    assert result.first_token_seconds == Spread(0.5, 0.5, 1.0)
    assert result.tokens_per_round == 2.5
    assert (result.identical, result.answers) == (1, 3)
    assert figures("x", [(reply(None), reply(None))]).speed_up == Spread(0.0, 0.0, 0.0)


@pytest.fixture
def compared(monkeypatch):
    """`compared(run, NAMES)`: two turns of methods, whose processes report `run(NAME)`."""

    def results(run, names):
        answer = lambda command, _: run(command[-1].split(".")[-1])  # noqa: E731
        monkeypatch.setattr(runner, "run_script", answer)
        *_, last = compare([PeerMethod(name, name) for name in names], task(text=[TEXT]), 2, quiet)
        return last

    return results


def test_methods_take_turns_and_answers_are_paired_within_one(compared):
    log, speeds = [], iter([2.0, 4.0, 1.0, 0.5])  # a, b; then b, a

    def run(name):
        log.append(name)
        return ProgramRun(len(log) + 0.5, 5 * len(log), {"text": [reply(next(speeds))]}, {}, {})

    first, second = compared(run, "ab")
    assert log == ["a", "b", "b", "a"]
    assert first.figures["text"].speed_up == Spread(1.0, 1.0, 1.0)
    assert second.figures["text"].speed_up == Spread(2.0, 2.0, 2.0)
    assert second.figures["text"].answers == 2
    assert second.start_seconds == 3.0
    assert second.peak_memory_bytes == 15


def test_answers_are_compared_with_the_same_programs_plain_ones(compared):
    answers = {"a, plain": (1, 2, 3), "b, plain": (1, 2, 4), "b, drafted": (1, 9)}

    def run(name):
        return ProgramRun(1.5, 5, {"text": [reply(2.0, tokens=answers[name])]}, {}, {})

    first, plain, drafted = compared(run, answers)
    assert first.own_plain == plain.own_plain == {"text": Agreement(2, 2, None)}
    assert plain.figures["text"].identical == 0
    assert drafted.own_plain == {"text": Agreement(2, 0, 1)}
    cells = [row(each, "text", is_comparable=True)[-1] for each in (plain, drafted)]
    assert cells == ["yes", "0 of 2, from 1"]
    assert row(plain, "text", is_comparable=False)[-2:] == ("-", "yes")


def test_plain_decoding_is_measured_once():
    methods = peer_methods(["torch"], ["none", "M"], 5, "auto", "none", {})
    assert [each.name for each in methods] == ["mmspec torch, plain", "mmspec torch, M gamma 5"]


def test_a_head_is_exported_once_for_vllm_and_another_draft_is_refused(tmp_path, pair_paths):
    target, draft = map(str, pair_paths)
    head = str(tiny_head(tmp_path / "eagle3", "eagle3"))
    plain, drafted = peer_methods(["vllm"], [], "auto", "auto", "none", {})
    asked = script_io.Task(target, head, "cpu", "float32", {}, 3, {})
    assert task_of(plain, asked, str(tmp_path)).draft is None
    theirs = task_of(drafted, asked, str(tmp_path))
    assert read_head_config(Path(theirs.draft)).eagle3 == read_head_config(Path(head)).eagle3
    assert theirs.options == {"draft_tokens": 3}
    assert task_of(drafted, asked, str(tmp_path)) == theirs
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="needs a head that vLLM runs"):
        task_of(drafted, replace(asked, draft=draft), str(tmp_path / "other"))
