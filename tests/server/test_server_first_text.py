"""How soon the first text of a second turn comes: `mmspec serve` beside a chat."""

import json
from contextlib import closing
from http.client import HTTPConnection
from statistics import median
from time import perf_counter
from urllib.parse import urlsplit

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from support.bundled import SAMPLES
from support.live_server import CHAT, data_url, words
from support.serve_process import free_port, serve

QUESTION = "What is in this picture?"
IMAGE = SAMPLES / "shapes.png"
LENGTHS = {"max_new_tokens": 40, "gamma": 4}  # both draft alike, whatever they measure


@pytest.fixture
def server(tmp_path):
    words = [f"--{name.replace('_', '-')}={value}" for name, value in LENGTHS.items()]
    served = serve(["mini", "--backend", "torch", *words], tmp_path / "log", free_port())
    served.wait()
    yield served
    served.process.kill()


def of_server(server, asked):
    """Seconds from a request's first byte to the first text of the answer, and the answer."""
    body = json.dumps({"messages": asked, "stream": True}).encode()
    with closing(HTTPConnection(urlsplit(server.url).netloc)) as connection:
        connection.connect()
        started = perf_counter()
        connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
        texts = filter(None, map(text_of, connection.getresponse()))
        first, seconds = next(texts), perf_counter() - started
        return seconds, first + "".join(texts)


def text_of(line):
    """The text in a line of an event stream; empty if it has none."""
    event = line.removeprefix(b"data: ").strip()
    choices = json.loads(event)["choices"] if event.startswith(b"{") else []
    return "".join(choice["delta"].get("content", "") for choice in choices)


def of_chat(chat, text):
    """Seconds to the first text of an answer, and the answer; the question is taken back."""
    started = perf_counter()
    texts = filter(None, chat.ask(text).texts())
    first, seconds = next(texts), perf_counter() - started
    answer = first + "".join(texts)
    chat.conversation.undo()
    return seconds, answer


@pytest.mark.slow
def test_the_first_text_of_a_second_turn_comes_about_as_soon_as_in_a_chat(server, capfd):
    """In turn, so that other programs slow both; the figures are those of docs/server.md."""
    chat = load("mini", backend="torch").chat(Options(**LENGTHS))
    part = {"type": "image_url", "image_url": {"url": data_url(IMAGE.read_bytes())}}
    before = [{"role": "user", "content": [part, words(QUESTION)]}]
    before.append({"role": "assistant", "content": chat.reply(QUESTION, IMAGE).text})
    times = {"chat": [], "server": []}
    for number in range(40):
        text = f"How many triangles, {number}?"
        seconds, expected = of_chat(chat, text)
        times["chat"].append(seconds)
        seconds, answer = of_server(server, [*before, {"role": "user", "content": text}])
        times["server"].append(seconds)
        assert answer == expected
    middle = {name: round(1000 * median(seconds), 1) for name, seconds in times.items()}
    with capfd.disabled():
        print(f"\nms to the first text of a second turn: median {middle}")  # noqa: T201
    assert middle["server"] < 1.5 * middle["chat"]
