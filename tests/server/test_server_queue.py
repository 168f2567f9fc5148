"""One answer at a time: a bounded queue in order, clients that leave, and the end of the server."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event, Semaphore
from time import sleep

import httpx2
import pytest

from mmspec.chat.answer import Piece
from mmspec.chat.options import Options
from mmspec_server.chat_request import read_chat_request
from mmspec_server.completions import Completion
from mmspec_server.decoding import DecodingQueue
from mmspec_server.endpoint import Fields
from mmspec_server.replies import EventStream
from support.live_server import CHAT, chunks_of, live, text_of, until
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


@pytest.fixture
def gate():
    return Gate()


@contextmanager
def gated(directory, gate, **limits):
    engine = scripted_engine(directory)
    engine.target.model.fault = gate
    with live(lambda: engine, OPTIONS, **limits) as server:
        try:
            yield server
        finally:
            gate.opened.set()


@pytest.fixture
def clients():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def question(text, **fields):
    return {"messages": [{"role": "user", "content": text}], **fields}


def test_others_wait_in_order_and_one_too_many_is_told_when_to_come_back(directory, gate, clients):
    """Who waits is told for how many answers."""
    with gated(directory, gate, queue=2) as server:
        answers = []
        for waiting, name in enumerate(["a", "b", "c"], start=1):
            asked = question(name, stream=True, mmspec={"details": True})
            answers.append(clients.submit(server.client.post, CHAT, json=asked))
            until(lambda count=waiting: server.service.queue.jobs == count)
        refused = server.client.post(CHAT, json=question("d"))
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "queue_full"
        assert int(refused.headers["retry-after"]) >= 1
        assert server.client.get("/health").status_code == 200
        for number, answer in enumerate(answers, start=1):
            while not answer.done():  # one round more, until the first in the queue is answered
                assert not any(other.done() for other in answers[number:])
                gate.permits.release()
                sleep(0.001)
            details = [chunk.get("mmspec", {}) for chunk in chunks_of(answer.result().text)]
            told = [each["waiting"] for each in details if each.get("waiting")]
            assert told == ([number - 1] if number > 1 else [])
        gate.opened.set()
        assert server.client.post(CHAT, json=question("d")).status_code == 200


def test_a_stream_that_waits_gets_comments(directory, gate):
    with (
        gated(directory, gate, silence=0.05) as server,
        server.client.stream("POST", CHAT, json=question("a", stream=True)) as reply,
    ):
        lines = (line for line in reply.iter_lines() if line)
        assert '"role"' in next(lines)
        assert next(lines) == ": waiting"
        gate.opened.set()
        assert list(lines)[-1] == "data: [DONE]"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_its_answer_within_a_round(directory, gate, stream):
    with gated(directory, gate) as server:
        gate.permits.release(3)
        with (
            suppress(httpx2.ReadTimeout),
            server.client.stream("POST", CHAT, json=question("a", stream=stream), timeout=0.3) as r,
        ):
            next(line for line in r.iter_lines() if '"content": ' in line)
        sleep(0.3)  # for the server to see that the connection is closed
        rounds = gate.rounds
        gate.opened.set()
        until(lambda: server.service.queue.jobs == 0)
        assert gate.rounds <= rounds + 1 < ROUNDS
        assert text_of(server.ask("b"))


def test_a_client_that_has_left_before_its_answer_begins_gets_none(scripted):
    """It may leave while its images are read."""
    rounds = []

    def work():
        for number in range(ROUNDS):
            rounds.append(number)
            sleep(0.01)
            yield Piece("", "word ")

    async def left():
        return {"type": "http.disconnect"}

    async def send(_):
        pass

    async def serve():
        queue = DecodingQueue(1)
        job = queue.submit(work())
        request = read_chat_request(Fields({"messages": [{"role": "user"}]}), OPTIONS)
        reply = Completion("m", request, scripted.service.engine.target)
        await EventStream(reply, job, 1.0)({"type": "http"}, left, send)
        queue.close()

    asyncio.run(serve())
    assert len(rounds) < ROUNDS


def test_a_client_that_leaves_the_queue_frees_its_place(directory, gate, clients):
    with gated(directory, gate, queue=1) as server:
        running = clients.submit(server.client.post, CHAT, json=question("a"))
        until(lambda: gate.rounds == 1)
        with pytest.raises(httpx2.ReadTimeout):
            server.client.post(CHAT, json=question("b"), timeout=0.3)
        until(lambda: server.service.queue.jobs == 1)
        waiting = clients.submit(server.client.post, CHAT, json=question("c"))
        until(lambda: server.service.queue.jobs == 2)
        gate.opened.set()
        assert [running.result().status_code, waiting.result().status_code] == [200, 200]
        assert gate.rounds == 2 * ROUNDS


def test_the_end_lets_the_running_answer_finish_and_refuses_those_that_wait(
    directory, gate, clients
):
    with gated(directory, gate, grace=20) as server:
        running = clients.submit(server.client.post, CHAT, json=question("a"))
        until(lambda: gate.rounds == 1)
        waiting = clients.submit(server.client.post, CHAT, json=question("b"))
        until(lambda: server.service.queue.jobs == 2)
        server.server.should_exit = True
        assert waiting.result(5).status_code == 503
        assert not running.done()
        gate.opened.set()
        assert len(text_of(running.result(5).json())) > 0
        server.thread.join(5)
        assert not server.thread.is_alive()


@pytest.mark.parametrize("stream", [False, True])
def test_the_grace_over_the_running_answer_is_cut(directory, gate, clients, stream):
    with gated(directory, gate, grace=0.2) as server:
        running = clients.submit(server.client.post, CHAT, json=question("a", stream=stream))
        gate.permits.release(3)
        until(lambda: gate.rounds == 4)
        server.server.should_exit = True
        sleep(0.6)
        gate.permits.release(1)  # the round in which the cut takes effect
        reply = running.result(5)
        if stream:
            assert chunks_of(reply.text)[-1]["error"]["code"] == "shutting_down"
        else:
            assert reply.status_code == 503
        server.thread.join(5)
        assert not server.thread.is_alive()
        assert gate.rounds <= 5
