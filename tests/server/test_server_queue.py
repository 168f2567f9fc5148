"""One answer at a time: a bounded queue in order, clients that leave, and the end of the server."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from threading import Event, Semaphore

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


@contextmanager
def asked(server, text, **fields):
    """A client that reads nothing, and leaves at the end of the context."""
    with closing(HTTPConnection("127.0.0.1", server.client.base_url.port)) as connection:
        body = json.dumps(question(text, **fields))
        connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
        yield


def stops(server):
    """Wait until nobody reads the running answer."""
    until(server.service.queue._jobs[0]._has_left.is_set)


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
            gate.permits.release(ROUNDS)
            answer.result(PATIENCE)
            assert not any(other.done() for other in answers[number:])
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
        with asked(server, "a", stream=stream):
            until(lambda: gate.rounds == 4)
        stops(server)
        gate.opened.set()
        until(lambda: server.service.queue.jobs == 0)
        assert gate.rounds <= 5
        assert text_of(server.ask("b"))


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

    async def left():
        return {"type": "http.disconnect"}

    async def send(_):
        pass

    async def serve():
        queue = DecodingQueue(1)
        job = queue.submit(work())
        request = read_chat(Fields({"messages": [{"role": "user"}]}), OPTIONS)
        reply = Completion("m", request, scripted.service.engine.target)
        await EventStream(reply, job, 1.0)({"type": "http"}, left, send)
        gone.set()
        queue.close()

    asyncio.run(serve())
    assert len(rounds) < 2


def test_a_client_that_leaves_the_queue_frees_its_place(directory, gate, clients):
    with gated(directory, gate, queue=1) as server:
        running = clients.submit(server.client.post, CHAT, json=question("a"))
        until(lambda: gate.rounds == 1)
        with asked(server, "b"):
            until(lambda: server.service.queue.jobs == 2)
        until(lambda: server.service.queue.jobs == 1)
        waiting = clients.submit(server.client.post, CHAT, json=question("c"))
        until(lambda: server.service.queue.jobs == 2)
        gate.opened.set()
        assert [running.result().status_code, waiting.result().status_code] == [200, 200]
        assert gate.rounds == 2 * ROUNDS


def test_the_end_lets_the_running_answer_finish_and_refuses_those_that_wait(
    directory, gate, clients
):
    with gated(directory, gate, grace=PATIENCE) as server:
        running = clients.submit(server.client.post, CHAT, json=question("a"))
        until(lambda: gate.rounds == 1)
        waiting = clients.submit(server.client.post, CHAT, json=question("b"))
        until(lambda: server.service.queue.jobs == 2)
        server.server.should_exit = True
        assert waiting.result(PATIENCE).status_code == 503
        assert not running.done()
        gate.opened.set()
        assert len(text_of(running.result(PATIENCE).json())) > 0
        server.thread.join(PATIENCE)
        assert not server.thread.is_alive()


@pytest.mark.parametrize("stream", [False, True])
def test_a_second_ctrl_c_cuts_the_answer_without_a_traceback(
    directory, gate, clients, stream, capfd, caplog
):
    with gated(directory, gate, grace=600) as server:
        clients.submit(server.client.post, CHAT, json=question("a", stream=stream))
        until(lambda: gate.rounds == 1)
        server.server.should_exit = server.server.force_exit = True
        server.thread.join(PATIENCE)
        assert not server.thread.is_alive()  # also where Python waits for open connections
    assert "Traceback" not in "".join(capfd.readouterr())
    assert "the running answer has 600 s to end" in caplog.text


@pytest.mark.parametrize("stream", [False, True])
def test_the_grace_over_the_running_answer_is_cut(directory, gate, clients, stream):
    with gated(directory, gate, grace=0.2) as server:
        running = clients.submit(server.client.post, CHAT, json=question("a", stream=stream))
        gate.permits.release(3)
        until(lambda: gate.rounds == 4)
        server.server.should_exit = True
        stops(server)
        gate.permits.release(1)  # the round in which the cut takes effect
        reply = running.result(PATIENCE)
        if stream:
            assert chunks_of(reply.text)[-1]["error"]["code"] == "shutting_down"
        else:
            assert reply.status_code == 503
        server.thread.join(PATIENCE)
        assert not server.thread.is_alive()
        assert gate.rounds <= 5
