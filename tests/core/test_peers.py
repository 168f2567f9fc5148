"""Peers in processes of their own: what a script reports, what failures become, what is counted."""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mmspec.checkpoints.head_config import read_head_config
from mmspec.ground.errors import UsageError
from mmspec_bench.commands.peers import row
from mmspec_bench.compare import runner, script_io
from mmspec_bench.compare.methods import PeerMethod, peer_methods
from mmspec_bench.compare.runner import Agreement, PeerError, compare, run_script, task_of
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
    with pytest.raises(PeerError, match=reason):
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


def test_methods_take_turns_and_answers_are_paired_within_one(monkeypatch):
    log, speeds = [], iter([2.0, 4.0, 1.0, 0.5])  # a, b; then b, a

    def run(command, _):
        log.append(command[-1].rpartition(".")[2])
        count, replies = len(log), {"text": [reply(next(speeds))]}
        return ProgramRun(count + 0.5, 5 * count, replies, {}, {})

    monkeypatch.setattr(runner, "run_script", run)
    *_, results = compare([PeerMethod(name, name) for name in "ab"], task(text=[TEXT]), 2, quiet)
    assert log == ["a", "b", "b", "a"]
    assert results[0].figures["text"].speed_up == Spread(1.0, 1.0, 1.0)
    assert results[1].figures["text"].speed_up == Spread(2.0, 2.0, 2.0)
    assert results[1].figures["text"].answers == 2
    assert results[1].start_seconds == 3.0
    assert results[1].peak_memory_bytes == 15


def test_answers_are_compared_with_the_same_programs_plain_ones(monkeypatch):
    answers = {"a, plain": [1, 2, 3], "b, plain": [1, 2, 4], "b, drafted": [1, 9]}

    def run(command, its_task):
        tokens = answers[command[-1].rpartition(".")[2]]
        reply = Timing(tokens, 3, 3, 2, 1.0, 0.1)
        return ProgramRun(1.5, 5, {"text": [reply]}, {}, {})

    monkeypatch.setattr(runner, "run_script", run)
    methods = [PeerMethod(name, name) for name in answers]
    *_, (first, plain, drafted) = compare(methods, task(text=[TEXT]), 2, quiet)
    assert first.own_plain == plain.own_plain == {"text": Agreement(2, 2, None)}
    assert plain.figures["text"].identical == 0
    assert drafted.own_plain == {"text": Agreement(2, 0, 1)}
    assert [row(each, "text", is_comparable=True)[-1] for each in (plain, drafted)] == [
        "yes",
        "0 of 2, from 1",
    ]


def test_where_the_first_program_cannot_run_nothing_is_said_of_equal_tokens(monkeypatch):
    def run(command, its_task):
        if command[-1].endswith("a"):
            raise PeerError("no memory")
        return ProgramRun(1.5, 5, {"text": [reply(2.0)]}, {}, {})

    monkeypatch.setattr(runner, "run_script", run)
    *_, (_, second) = compare(
        [PeerMethod(name, name) for name in "ab"], task(text=[TEXT]), 1, quiet
    )
    assert row(second, "text", is_comparable=False)[-2:] == ("-", "yes")


@pytest.mark.parametrize("peers", [[], ["torch", "tensorflow"]])
def test_no_peer_or_an_unknown_one_is_refused(peers):
    with pytest.raises(UsageError, match="unknown peer"):
        peer_methods(peers, [], 5, "auto", {})


def test_a_head_is_exported_once_for_vllm_and_another_draft_is_refused(tmp_path, pair_paths):
    target, draft = map(str, pair_paths)
    head = str(tiny_head(tmp_path / "eagle3", "eagle3"))
    plain, drafted = peer_methods(["vllm"], [], "auto", "auto", {})
    asked = script_io.Task(target, head, "cpu", "float32", {}, 3, {})
    assert task_of(plain, asked, str(tmp_path)).draft is None
    theirs = task_of(drafted, asked, str(tmp_path))
    assert read_head_config(Path(theirs.draft)).eagle3 == read_head_config(Path(head)).eagle3
    assert theirs.options == {"draft_tokens": 3}
    assert task_of(drafted, asked, str(tmp_path)) == theirs
    (tmp_path / "other").mkdir()
    with pytest.raises(PeerError, match="needs a head that vLLM runs"):
        task_of(drafted, replace(asked, draft=draft), str(tmp_path / "other"))
