"""Many requests at once, good and bad, and bodies that no client would send."""

import gc
import json
import random
import resource
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import sleep

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec_server.allocator import share_one_heap
from support.live_server import CHAT, Live, data_url, live, png, shown, words

COLOURS = ["red", "blue", "green", "white", "black"]
JSON = {"Content-Type": "application/json"}
FULL = 429
"""The status of any request, good or bad, that finds the queue full."""


def question(number):
    """A good request: one of 15, some with an image, some sampled, some of two turns."""
    kind = number % 15
    content = [words(f"What about {kind}?")]
    if kind % 3:
        content.append(shown(COLOURS[kind % 5]))
    messages = [{"role": "user", "content": content}]
    if kind % 5 == 0:
        messages += [{"role": "assistant", "content": "a word"}, {"role": "user", "content": "Why"}]
    fields = {"temperature": 0.8, "seed": kind} if kind % 2 else {}
    return {"messages": messages, "max_tokens": 12, **fields}


def malformed(client, number):
    body = [b"{", b"[]", b'{"messages": 3}', b'{"messages": []}'][number % 4]
    return client.post(CHAT, content=body, headers=JSON).status_code in (400, FULL)


def oversized(client, number):
    if number % 2:
        reply = client.post(CHAT, content=b" " * 300_000, headers=JSON)
        return reply.status_code in (400, 413, FULL)
    body = question(number) | {"messages": [{"role": "user", "content": "word " * 20_000}]}
    return client.post(CHAT, json=body).status_code in (400, 413, FULL)


def cancelled(client, number):
    body = question(number) | {"stream": True, "max_tokens": 400}
    with client.stream("POST", CHAT, json=body) as reply:
        next(reply.iter_lines())
        return reply.status_code in (200, FULL)


def slow(client, number):
    body = json.dumps(question(number)).encode()

    def parts():
        for start in range(0, len(body), len(body) // 3):
            yield body[start : start + len(body) // 3]
            sleep(0.02)

    return client.post(CHAT, content=parts(), headers=JSON).status_code in (200, FULL)


BAD = (malformed, oversized, cancelled, slow)


class Texts:
    """What plain cold runs answer to the good questions."""

    def __init__(self, server: Live) -> None:
        self.expected = {}
        plain = Options(drafting="none")
        service = server.service
        drafting, service.options = service.options, replace(plain, max_new_tokens=12)
        for number in range(15):
            service.cache._chats.clear()
            self.expected[number] = self.text(server.client.post(CHAT, json=question(number)))
        service.options = drafting

    def text(self, reply):
        return reply.json()["choices"][0]["message"]["content"]

    def is_right(self, client, number):
        while True:
            reply = client.post(CHAT, json=question(number))
            if reply.status_code != FULL:
                return self.text(reply) == self.expected[number % 15]
            sleep(0.05)


def run_load(server: Live, requests: int):
    """Send requests from four clients, one in five bad.

    Returns the objects, and the bytes in memory, after each hundred.
    """
    texts, chosen, memory = Texts(server), random.Random(7), []
    kinds = [
        chosen.choice(BAD) if number % 5 == 4 else texts.is_right for number in range(requests)
    ]
    with (
        httpx2.Client(base_url=server.client.base_url, timeout=60) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        for start in range(0, requests, 100):
            numbers = range(start, min(start + 100, requests))
            results = list(pool.map(lambda number: kinds[number](client, number), numbers))
            assert all(results), [
                kinds[n].__name__ for n, good in zip(numbers, results, strict=True) if not good
            ]
            memory.append((live_objects(), resident()))
    return memory


def live_objects():
    """Number of Python's objects that can be in circles, after those without use are gone."""
    gc.collect()
    return len(gc.get_objects())


def resident():
    """Bytes of this process in memory now."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def test_good_answers_stay_right_among_bad_requests(pair: Live, capfd, caplog):
    run_load(pair, 60)
    assert "Traceback" not in "".join(capfd.readouterr()) + caplog.text


@pytest.mark.slow
def test_eight_hundred_requests_of_four_clients(pair_paths, capfd, caplog):
    options = Options(max_new_tokens=12, gamma=3)
    limits = {"body_bytes": 200_000, "waiting": 3}
    share_one_heap()
    with live(lambda: load(*map(str, pair_paths), backend="torch"), options, **limits) as server:
        memory = run_load(server, 800)
        assert server.service.queue.jobs == 0
    objects, sizes = zip(*memory, strict=True)
    assert max(objects[1:]) < 1.01 * objects[1], objects
    assert max(sizes) < sizes[0] + 16_000_000, sizes
    assert "Traceback" not in "".join(capfd.readouterr()) + caplog.text
    with capfd.disabled():
        print("\nMB after each hundred:", *(round(size / 1e6) for size in sizes))  # noqa: T201


BODY = question(2) | {
    "model": "scripted",
    "n": 1,
    "stop": ["a"],
    "seed": 3,
    "top_p": 0.5,
    "stream": False,
    "stream_options": {"include_usage": True},
    "response_format": {"type": "text"},
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["user", "image_url", "data:image/png;base64,AAAA", data_url(png()[:99])]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


def places(value, path=()):
    yield path
    kinds = {dict: lambda: value.items(), list: lambda: enumerate(value)}
    for key, inner in kinds.get(type(value), tuple)():
        yield from places(inner, (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


mutated = st.builds(replaced, st.just(BODY), st.sampled_from([*places(BODY)]), VALUES)
fuzzed = mutated.map(lambda body: json.dumps(body).encode()) | st.binary(max_size=200)


def check_fuzzed(server, body):
    reply = server.client.post(CHAT, content=body, headers=JSON)
    if reply.status_code != 200:  # some changes are of no account
        assert 400 <= reply.status_code < 500, (reply.status_code, body)
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


fuzzing = settings(deadline=None, suppress_health_check=list(HealthCheck))


@settings(fuzzing, max_examples=60)
@given(fuzzed)
def test_no_body_makes_the_server_fail(scripted: Live, body):
    check_fuzzed(scripted, body)


@pytest.mark.slow
@settings(fuzzing, max_examples=1000)
@given(fuzzed)
def test_no_body_of_a_thousand_makes_the_server_fail(scripted: Live, body):
    check_fuzzed(scripted, body)
