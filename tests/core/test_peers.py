"""Peers in processes of their own: what the pipe carries, what failures become, what is counted."""

import os
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mmspec.bench.peers.catalogue import PEERS, PeerArm, catalogue
from mmspec.bench.peers.measure import figures, measure, questions
from mmspec.bench.peers.renamed import with_hub_names
from mmspec.bench.peers.report import COLUMNS, PeerReport, markdown, rows
from mmspec.bench.peers.wire import Question, Reply, Setup
from mmspec.bench.peers.worker import PeerError, Worker
from mmspec.bench.prompts import drawn
from mmspec.bench.speed import Spread
from mmspec.errors import UsageError
from mmspec.images import open_picture

TEXT = Question([{"text": "one "}, {"text": "two"}], 3)
SEEN = Question([{"image": "a.png"}, {"text": "what?"}], 3)
PATH = os.pathsep.join([str(Path(__file__).parent), *sys.path])


def fake(limit_seconds=60.0):
    return Worker([sys.executable, "-m", "fake_peer"], {"PYTHONPATH": PATH}, limit_seconds)


def told(does):
    return Setup("model", options={"does": does})


def quiet(_):
    """Shows nothing."""


def test_a_question_has_its_text_and_its_images():
    assert (TEXT.text, TEXT.images) == ("one two", [])
    assert (SEEN.text, SEEN.images) == ("what?", ["a.png"])


def test_a_worker_loads_once_and_answers_whatever_libraries_print():
    with closing(fake()) as worker:
        described, seconds = worker.load(told("answer"))
        replies = [worker.ask(TEXT) for _ in range(2)]
    assert described["fake"] == "1.0"
    assert seconds > 0
    assert [reply.tokens for reply in replies] == [[7, 7, 7]] * 2
    assert [count for count, _ in replies[0].events] == [1, 2, 3]
    assert replies[0].process_bytes > 2**20


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("miss", "no_such_package is not installed for"),
        ("refuse", "ValueError: two"),
        ("die", "ended with status 3: no memory left"),
    ],
)
def test_why_a_worker_cannot_load_is_one_line(does, reason):
    with closing(fake()) as worker, pytest.raises(PeerError, match=reason) as caught:
        worker.load(told(does))
    assert len(str(caught.value).splitlines()) == 1


def test_an_answer_without_a_token_or_in_too_long_a_time_is_refused():
    with closing(fake()) as worker:
        worker.load(told("silent"))
        with pytest.raises(PeerError, match="without a token"):
            worker.ask(TEXT)
    with closing(fake(limit_seconds=8)) as worker:
        worker.load(told("hang"))
        with pytest.raises(PeerError, match="no answer within 8 seconds"):
            worker.ask(TEXT)


def test_a_late_answer_is_not_taken_for_the_next_questions():
    with closing(fake(limit_seconds=8)) as worker:
        worker.load(told("late"))
        with pytest.raises(PeerError, match="no answer within 8 seconds"):
            worker.ask(TEXT)
        with pytest.raises(PeerError, match="ended with status"):
            worker.ask(TEXT)


def test_an_interpreter_that_is_not_there_is_a_reason():
    with pytest.raises(PeerError, match="cannot start /no/python"):
        Worker(["/no/python", "-m", "fake_peer"])


def reply(*events, tokens=(7, 7), rounds=2):
    return Reply(list(tokens), list(events), rounds, process_bytes=5, device_bytes=0)


def test_speed_counts_what_came_after_the_first_event():
    drafted = reply((2, 1.0), (5, 1.5), (8, 3.0))
    assert (drafted.first_token_seconds, drafted.timed_tokens) == (1.0, 6)
    assert drafted.tokens_per_second == 3.0
    assert reply((4, 1.0)).tokens_per_second is None
    assert (reply((1, 1.0)).peak_bytes, Reply([], [(1, 1.0)], 1, 5, 9).peak_bytes) == (5, 9)


def test_figures_are_of_pairs():
    fast, slow = reply((1, 0.5), (5, 1.5)), reply((1, 1.0), (5, 3.0), tokens=(7, 8))
    found = figures([(fast, slow), (fast, None), (slow, slow)])
    assert found.tokens_per_second == Spread(4.0, 2.0, 4.0)
    assert found.speed_up == Spread(1.5, 1.0, 2.0)
    assert found.first_token_seconds == Spread(0.5, 0.5, 1.0)
    assert found.tokens_per_round == 2.5
    assert (found.identical, found.answers) == (1, 3)


class Scripted:
    """A worker in this process that notes who was asked what."""

    def __init__(self, command, log):
        self.name, self.log, self.closed = command[-1], log, False
        if self.name == "absent":
            raise PeerError("not there")

    def load(self, setup):
        self.setup = setup
        return {"draft": setup.draft}, 2.0

    def ask(self, question):
        self.log.append((self.name, question.text))
        if self.name == "blind" and question.images:
            raise PeerError("sees no images")
        return reply((1, 0.5), (3, 1.5))

    def close(self):
        self.log.append((self.name, "closed"))


def measured(names, sets, repeats=1, **settings):
    log = []
    arms = [PeerArm(name, name, **settings) for name in names]
    told = Setup("model", None, "cpu", "float32")
    results = measure(arms, sets, told, repeats, quiet, lambda command: Scripted(command, log))
    return results, log


def test_arms_start_twice_are_interleaved_and_closed():
    _, log = measured(["a", "b"], {"text": [TEXT, Question([{"text": "x"}], 1)]})
    first, second = "one two", "x"
    assert log[:2] == [("a", "closed"), ("a", first)]
    assert log[2:4] == [("b", "closed"), ("b", first)]
    assert log[4:8] == [("a", first), ("b", first), ("b", second), ("a", second)]
    assert log[8:] == [("b", "closed"), ("a", "closed")]


def test_what_cannot_be_answered_is_a_reason_and_stops_no_other():
    results, log = measured(["a", "absent", "blind"], {"images": [SEEN], "text": [TEXT]}, 2)
    able, absent, blind = results
    assert absent.reasons == {"images": "not there", "text": "not there"}
    assert blind.reasons == {"images": "sees no images"}
    assert list(blind.figures) == ["text"]
    assert not able.reasons
    assert [name for name, text in log if text == "what?"].count("blind") == 1
    assert able.start_seconds == 2.5
    table = rows(results, "images")
    assert [len(row) for row in table] == [len(COLUMNS)] * 3
    assert table[2][1] == "cannot: sees no images"
    assert table[0][-1] == "yes"
    report = PeerReport("m", None, {"images": 1, "text": 1}, 2, 3, results, {})
    lines = markdown(report).splitlines()
    assert lines[0] == "images: 1 prompts x 2"
    assert {line.count("|") for line in lines if line.startswith("|")} == {len(COLUMNS) + 1}


def test_an_arm_that_drafts_needs_a_draft():
    results, _ = measured(["a"], {"text": [TEXT]}, drafts=True)
    assert results[0].reasons == {"text": "needs a draft: name one with --draft"}


def test_the_catalogue_names_every_peer_and_refuses_others():
    arms = catalogue(PEERS, ["M", "ngram"], 5, "/vlm/python")
    assert len({arm.name for arm in arms}) == len(arms)
    assert {arm.python for arm in arms if "vlm" in arm.name} == {"/vlm/python"}
    assert [arm.name for arm in arms if arm.options.get("backend") == "mlx" and arm.drafts] == [
        "mmspec mlx, M gamma 5"
    ]
    with pytest.raises(UsageError, match="unknown peer 'vllm'"):
        catalogue(["vllm"], ["M"], 5)


def test_prompts_keep_their_order_and_their_pictures(tmp_path):
    prompt = drawn(1, size=32)[0]
    asked = questions([prompt], tmp_path, 9)[0]
    assert asked.max_tokens == 9
    assert asked.text == "".join(part for part in prompt.message.parts if isinstance(part, str))
    assert [open_picture(file) for file in asked.images] == list(prompt.message.pictures)


def test_a_tower_is_renamed_and_its_bytes_stay(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    tensors = {
        "vision_tower.encoder.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "language_model.model.norm.weight": np.ones(5, np.float16),
    }
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    (source / "config.json").write_text("{}")
    copy = with_hub_names(source, tmp_path / "copy")
    found = load_file(copy / "model.safetensors")
    assert (copy / "config.json").read_text() == "{}"
    assert sorted(found) == [
        "language_model.model.norm.weight",
        "vision_tower.vision_model.encoder.weight",
    ]
    for name, value in tensors.items():
        renamed = name.replace("vision_tower.", "vision_tower.vision_model.")
        np.testing.assert_array_equal(found[renamed], value)
    assert with_hub_names(copy, tmp_path / "again") == copy
