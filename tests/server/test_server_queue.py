"""One answer at a time: a bounded queue in order, clients that leave, and the end of the server."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from threading import Event, Semaphore
from unittest.mock import AsyncMock

import pytest

from mmspec.chat.answer import Piece
from mmspec.chat.options import Options
from mmspec_server.chat_request import read_chat
from mmspec_server.completions import Completion
from mmspec_server.decoding import DecodingQueue
from mmspec_server.endpoint import ApiError, Fields
from mmspec_server.replies import EventStream
from support.live_server import CHAT, PATIENCE, chunks_of, live, text_of, until
from support.scripted_engine import scripted_engine

ROUNDS = 30
OPTIONS = Options(max_new_tokens=ROUNDS, drafting="none")


class Gate:
    """Lets the target verify once for every permit, or freely when it is open."""

    def __init__(self):
        self.permits = Semaphore(0)
        self.opened = Event()
        self.rounds = 0

    def __call__(self, call):
        if call != "target.verify":
            return
        self.rounds += 1
        while not self.opened.is_set():
            if self.permits.acquire(timeout=0.01):
                return


def question(text, **fields):
    return {"messages": [{"role": "user", "content": text}], **fields}


class Gated:
    """A server whose target waits at a gate, and clients that ask it."""

    def __init__(self, server, gate, pool):
        self.server, self.gate, self.pool = server, gate, pool
        self.queue = server.service.queue

    def ask(self, text, **fields):
        """The reply to come."""
        return self.pool.submit(self.server.client.post, CHAT, json=question(text, **fields))

    @contextmanager
    def asked(self, text, **fields):
        """A client that reads nothing, and leaves at the end of the context."""
        port = self.server.client.base_url.port
        with closing(HTTPConnection("127.0.0.1", port)) as connection:
            body = json.dumps(question(text, **fields))
            connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
            yield

    def wait_for(self, jobs=None, rounds=None):
        until(lambda: jobs in (None, self.queue.jobs) and rounds in (None, self.gate.rounds))

    def wait_until_nobody_reads(self):
        until(self.queue._jobs[0]._has_left.is_set)

    def ends(self):
        self.server.thread.join(PATIENCE)
        return not self.server.thread.is_alive()


@pytest.fixture
def gated(directory):
    """Function that returns a context with such a server."""

    @contextmanager
    def opened(**limits):
        engine, gate = scripted_engine(directory), Gate()
        engine.target.model.fault = gate
        with ThreadPoolExecutor(8) as pool, live(lambda: engine, OPTIONS, **limits) as server:
            try:
                yield Gated(server, gate, pool)
            finally:
                gate.opened.set()

    return opened


def test_others_wait_in_order_and_one_too_many_is_told_when_to_come_back(gated):
    """Who waits is told for how many answers."""
    with gated(queue=2) as it:
        answers = []
        for waiting, name in enumerate(["a", "b", "c"], start=1):
            answers.append(it.ask(name, stream=True, mmspec={"details": True}))
            it.wait_for(jobs=waiting)
        refused = it.ask("d").result()
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        assert int(refused.headers["retry-after"]) >= 1
        assert it.server.client.get("/health").status_code == 200
        for number, answer in enumerate(answers, start=1):
            it.gate.permits.release(ROUNDS)
            details = [each.get("mmspec", {}) for each in chunks_of(answer.result(PATIENCE).text)]
            assert not any(other.done() for other in answers[number:])
            told = [each["waiting"] for each in details if each.get("waiting")]
            assert told == ([number - 1] if number > 1 else [])
        it.gate.opened.set()
        assert it.ask("d").result().status_code == 200


def test_a_stream_that_waits_gets_comments(gated):
    asked = {"json": question("a", stream=True)}
    with gated(silence=0.05) as it, it.server.client.stream("POST", CHAT, **asked) as reply:
        lines = (line for line in reply.iter_lines() if line)
        assert '"role"' in next(lines)
        assert next(lines) == ": waiting"
        it.gate.opened.set()
        assert list(lines)[-1] == "data: [DONE]"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_its_answer_within_a_round(gated, stream):
    with gated() as it:
        it.gate.permits.release(3)
        with it.asked("a", stream=stream):
            it.wait_for(rounds=4)
        it.wait_until_nobody_reads()
        it.gate.opened.set()
        it.wait_for(jobs=0)
        assert it.gate.rounds <= 5
        assert text_of(it.server.ask("b"))


def test_a_request_that_is_read_takes_the_place_of_one_that_waits():
    with closing(DecodingQueue(1)) as queue:
        for _ in range(2):
            with queue.admission(), queue.admission(), pytest.raises(ApiError, match="429"):
                queue.admission().__enter__()
        with queue.admission(), queue.admission():
            queue.drain(0)
            with pytest.raises(ApiError, match="503"):
                queue.admission().__enter__()


def test_a_client_that_has_left_before_its_answer_begins_gets_none(scripted):
    """It may leave while its images are read."""
    rounds, gone = [], Event()

    def work():
        for number in range(ROUNDS):
            rounds.append(number)
            assert gone.wait(PATIENCE)
            yield Piece("", "word ")

    request = read_chat(Fields({"messages": [{"role": "user"}]}), OPTIONS)
    reply = Completion("m", request, scripted.service.engine.target)
    left = AsyncMock(return_value={"type": "http.disconnect"})

    async def serve(queue):
        await EventStream(reply, queue.submit(work()), 1.0)({"type": "http"}, left, AsyncMock())
        gone.set()

    with closing(DecodingQueue(1)) as queue:
        asyncio.run(serve(queue))
    assert len(rounds) < 2


def test_a_client_that_leaves_the_queue_frees_its_place(gated):
    with gated(queue=1) as it:
        running = it.ask("a")
        it.wait_for(rounds=1)
        with it.asked("b"):
            it.wait_for(jobs=2)
        it.wait_for(jobs=1)
        waiting = it.ask("c")
        it.wait_for(jobs=2)
        it.gate.opened.set()
        assert [running.result().status_code, waiting.result().status_code] == [200, 200]
        assert it.gate.rounds == 2 * ROUNDS


def test_the_end_lets_the_running_answer_finish_and_refuses_those_that_wait(gated):
    with gated(grace=PATIENCE) as it:
        running = it.ask("a")
        it.wait_for(rounds=1)
        waiting = it.ask("b")
        it.wait_for(jobs=2)
        it.server.server.should_exit = True
        assert waiting.result(PATIENCE).status_code == 503
        assert not running.done()
        it.gate.opened.set()
        assert text_of(running.result(PATIENCE).json())
        assert it.ends()


@pytest.mark.parametrize("stream", [False, True])
def test_a_second_ctrl_c_cuts_the_answer_without_a_traceback(gated, stream, capfd, caplog):
    with gated(grace=600) as it:
        it.ask("a", stream=stream)
        it.wait_for(rounds=1)
        it.server.server.should_exit = it.server.server.force_exit = True
        assert it.ends()  # also where Python waits for open connections
    assert "Traceback" not in "".join(capfd.readouterr())
    assert "the running answer has 600 s to end" in caplog.text


@pytest.mark.parametrize("stream", [False, True])
def test_the_grace_over_the_running_answer_is_cut(gated, stream):
    with gated(grace=0.2) as it:
        running = it.ask("a", stream=stream)
        it.gate.permits.release(3)
        it.wait_for(rounds=4)
        it.server.server.should_exit = True
        it.wait_until_nobody_reads()
        it.gate.permits.release(1)  # the round in which the cut takes effect
        reply = running.result(PATIENCE)
        if stream:
            assert chunks_of(reply.text)[-1]["error"]["code"] == "shutting_down"
        else:
            assert reply.status_code == 503
        assert it.ends()
        assert it.gate.rounds <= 5
