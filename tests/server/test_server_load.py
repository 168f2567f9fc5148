"""Many requests at once, good and bad, and bodies that no client would send."""

import gc
import json
import random
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mmspec.chat.options import Options
from support.live_server import CHAT, Live, data_url, png, shown, text_of, words

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
        reply = client.post(CHAT, content=b" " * 1_500_000, headers=JSON)
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
        service, self.expected = server.service, []
        drafting, service.options = service.options, Options(drafting="none", max_new_tokens=12)
        for number in range(15):
            service.cache._chats.clear()
            self.expected.append(text_of(server.client.post(CHAT, json=question(number)).json()))
        service.options = drafting

    def is_right(self, client, number):
        while True:
            reply = client.post(CHAT, json=question(number))
            if reply.status_code != FULL:
                return text_of(reply.json()) == self.expected[number % 15]
            sleep(0.05)


def run_load(url: str, texts: Texts, requests: int, after_hundred: Callable[[], object]):
    """Send requests from four clients, one in five bad; the results of `after_hundred`."""
    chosen, results = random.Random(7), []
    kinds = [
        chosen.choice(BAD) if number % 5 == 4 else texts.is_right for number in range(requests)
    ]
    with httpx2.Client(base_url=url, timeout=600) as client, ThreadPoolExecutor(4) as pool:
        for start in range(0, requests, 100):
            numbers = range(start, min(start + 100, requests))
            good = list(pool.map(lambda number: kinds[number](client, number), numbers))
            bad = [kinds[n].__name__ for n, right in zip(numbers, good, strict=True) if not right]
            assert not bad
            results.append(after_hundred())
    return results


def test_good_answers_stay_right_among_bad_requests(pair: Live, capfd, caplog):
    run_load(str(pair.client.base_url), Texts(pair), 40, gc.collect)
    assert "Traceback" not in "".join(capfd.readouterr()) + caplog.text


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads a process's memory from /proc")
def test_eight_hundred_requests_of_four_clients(pair: Live, pair_paths, serve, capfd):
    """The server is a process of its own, so that its memory is that of nothing else."""
    texts, (target, draft) = Texts(pair), map(str, pair_paths)
    limits = ["--max-new-tokens", "12", "--max-body", "1", "--queue", "3"]
    terminal, url = serve(target, "--draft", draft, "--gamma", "3", *limits)
    statistics = Path(f"/proc/{terminal.process.pid}/statm")
    pages = run_load(url, texts, 800, lambda: int(statistics.read_text().split()[1]))
    sizes = [each * resource.getpagesize() for each in pages]
    with capfd.disabled():
        print("\nMB after each hundred:", *(round(size / 1e6) for size in sizes))  # noqa: T201
    assert "mmspec_jobs 0" in httpx2.get(f"{url}/metrics").text
    assert max(sizes) < sizes[0] + 12_000_000, sizes
    terminal.watch(0)
    assert "Traceback" not in terminal.screen


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


@settings(suppress_health_check=list(HealthCheck), max_examples=60)
@given(fuzzed)
def test_no_body_makes_the_server_fail(scripted: Live, body):
    reply = scripted.client.post(CHAT, content=body, headers=JSON)
    if reply.status_code != 200:  # some changes are of no account
        assert 400 <= reply.status_code < 500, (reply.status_code, body)
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
