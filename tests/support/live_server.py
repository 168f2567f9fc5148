"""A server on a free port, in a thread of this process."""

import base64
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from threading import Thread
from time import monotonic, sleep
from typing import Any

import httpx2
from PIL import Image

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec_server.app import Service
from mmspec_server.decoding import DecodingQueue
from mmspec_server.server import Server, listen
from mmspec_server.settings import ServerSettings

CHAT = "/v1/chat/completions"
PATIENCE = 60
"""Seconds; a busy machine may take long."""


@dataclass(frozen=True)
class Live:
    """A running server and a client of it."""

    service: Service
    server: Server
    client: httpx2.Client
    thread: Thread

    def chat(self, messages: Any, **fields: Any) -> httpx2.Response:
        return self.client.post(CHAT, json={"messages": messages, **fields})

    def chunks(self, messages: Any, **fields: Any) -> list[dict[str, Any]]:
        """The objects of a streamed reply, which ends in order."""
        reply = self.chat(messages, stream=True, **fields)
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.text.endswith("data: [DONE]\n\n")
        return chunks_of(reply.text)

    def ask(self, content: Any, **fields: Any) -> dict[str, Any]:
        """The reply to one question."""
        reply = self.chat([{"role": "user", "content": content}], **fields)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def refusal(self, body: dict[str, Any], path: str = CHAT) -> dict[str, Any]:
        """The error of a request that cannot be answered."""
        reply = self.client.post(path, json=body)
        error: dict[str, Any] = reply.json()["error"]
        assert reply.status_code == (404 if error["param"] == "model" else 400), reply.text
        assert error["type"] == "invalid_request_error"
        return error


def only(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The schema of an object with these properties, all of them and no others."""
    object_ = {"type": "object", "properties": properties, "required": [*properties]}
    return {**object_, "additionalProperties": False, **more}


def text_in(chunks: list[dict[str, Any]]) -> str:
    """The text in a stream's chunks."""
    deltas = (choice["delta"] for chunk in chunks for choice in chunk["choices"])
    return "".join(delta.get("content", "") for delta in deltas)


def accepted(reply: dict[str, Any]) -> int:
    """The number of drafted tokens in an answer."""
    return reply["usage"]["completion_tokens_details"]["accepted_prediction_tokens"]


def chunks_of(stream: str) -> list[dict[str, Any]]:
    """The objects in the events of a stream."""
    events = [event for event in stream.split("\n\n") if event.startswith("data: {")]
    return [json.loads(event.removeprefix("data: ")) for event in events]


def text_of(reply: dict[str, Any]) -> str:
    return reply["choices"][0]["message"]["content"]


@contextmanager
def live(
    load: Callable[[], Engine], options: Options | None = None, **settings: Any
) -> Iterator[Live]:
    """Serve the models that `load` loads on the decoding thread."""
    chosen = ServerSettings(**settings)
    queue = DecodingQueue(chosen.queue)
    options = options or Options(max_new_tokens=12)
    service = Service(queue.call(load), options, chosen, queue)
    server, listener = Server(service), listen("127.0.0.1", 0)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx2.Client(base_url=url, timeout=600) as client:
            while not server.started:
                sleep(0.01)
            yield Live(service, server, client, thread)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        queue.close()
    assert not thread.is_alive()


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    end = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < end
        sleep(0.005)


def png(colour: str = "red", size: tuple[int, int] = (64, 48), kind: str = "PNG") -> bytes:
    out = BytesIO()
    Image.new("RGB", size, colour).save(out, kind)
    return out.getvalue()


def data_url(content: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def shown(colour: str, **options: Any) -> dict[str, Any]:
    """An `image_url` part with an image of one colour."""
    return image_part(png(colour, **options))


def image_part(content: bytes) -> dict[str, Any]:
    """An `image_url` part with an image's file."""
    return {"type": "image_url", "image_url": {"url": data_url(content), "detail": "high"}}


def words(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
