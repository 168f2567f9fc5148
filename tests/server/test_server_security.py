"""Who is answered, and what neither replies nor logs tell."""

import logging
import socket
from time import sleep

import pytest

from mmspec.chat.options import Options
from mmspec.ground.errors import CheckpointError, UsageError
from mmspec_server.settings import ServerSettings
from support.live_server import CHAT, Live, data_url, live, png
from support.scripted_engine import scripted_engine

QUESTION = {"messages": [{"role": "user", "content": "What?"}]}
KEY = "a key, perhaps longer"


@pytest.fixture(scope="module")
def guarded(directory):
    """A server with a key, a name and an origin of its own."""
    allowed = {"allow_host": ("box.local",), "allow_origin": ("http://page.example",)}
    with live(lambda: scripted_engine(directory), api_key=KEY, **allowed) as server:
        yield server


@pytest.mark.parametrize("isolate", [False, True])
def test_lookup_reads_what_others_asked_unless_they_are_isolated(directory, isolate):
    options = Options(drafting="lookup", gamma=4, max_new_tokens=24)
    with live(lambda: scripted_engine(directory, draft=None), options, isolate=isolate) as server:
        first, other = (server.ask("What is on the table?") for _ in range(2))
        assert first["choices"] == other["choices"]
        memory = server.service.engine.memory
        assert (memory is None) == isolate
        assert isolate or memory.text.index.length > 2 * 24


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "example.com"])
def test_an_address_that_others_reach_needs_a_key(host):
    with pytest.raises(UsageError, match="--api-key"):
        ServerSettings(host=host)
    assert ServerSettings(host=host, api_key=KEY).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_alone_needs_none(host):
    assert ServerSettings(host=host).api_key == ""


@pytest.mark.parametrize(
    "value", [None, "", KEY, "Bearer", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", f"Basic {KEY}"]
)
def test_a_request_without_the_key_is_refused(guarded: Live, value):
    headers = {} if value is None else {"Authorization": value}
    for reply in (
        guarded.client.get("/v1/models", headers=headers),
        guarded.client.post(CHAT, json=QUESTION, headers=headers),
        guarded.client.post(CHAT, content=b"{", headers=headers),
    ):
        assert reply.status_code == 401
        assert reply.json()["error"]["code"] == "invalid_api_key"
        assert reply.headers["www-authenticate"] == "Bearer"


def test_keys_are_compared_in_constant_time(guarded: Live, monkeypatch):
    compared = []

    def compare(first, second):
        compared.append((len(first), len(second)))
        return False

    monkeypatch.setattr("hmac.compare_digest", compare)
    for key in ("b", "a", KEY, "a" * 1000):
        headers = {"Authorization": f"Bearer {key}"}
        assert guarded.client.get("/v1/models", headers=headers).status_code == 401
    assert compared == [(32, 32)] * 4


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8585", 200),
        ("[::1]:8585", 200),
        ("evil.example", 403),
        ("evil.example:8585", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("192.168.1.7", 403),
        ("[", 403),
        ("", 403),
    ],
)
def test_a_name_bound_to_this_address_by_others_is_refused(scripted: Live, host, status):
    reply = scripted.client.post(CHAT, json=QUESTION, headers={"Host": host})
    assert reply.status_code == status


def test_further_names_and_addresses_can_be_allowed(guarded: Live):
    headers = {"Authorization": f"Bearer {KEY}", "Host": "box.local:8585"}
    assert guarded.client.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("name", "status"),
    [("192.168.1.7:8585", 200), ("box.local:8585", 200), ("localhost", 200), ("evil.example", 403)],
)
def test_a_server_that_others_reach_answers_under_its_addresses_and_names(directory, name, status):
    settings = {"host": "0.0.0.0", "api_key": KEY, "allow_host": ("Box.Local",)}
    with live(lambda: scripted_engine(directory), **settings) as server:
        headers = {"Authorization": f"Bearer {KEY}", "Host": name}
        assert server.client.get("/v1/models", headers=headers).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://evil.example", 403),
        ("null", 403),
        ("https://localhost", 403),
        ("http://127.0.0.1:1", 403),
        ("http://page.example", 403),
        ("same", 200),
    ],
)
def test_other_web_pages_may_not_ask(scripted: Live, origin, status):
    own = str(scripted.client.base_url).rstrip("/")
    headers = {"Origin": own if origin == "same" else origin}
    reply = scripted.client.post(CHAT, json=QUESTION, headers=headers)
    assert reply.status_code == status
    assert "access-control-allow-origin" not in reply.headers


def test_a_form_of_a_web_page_is_no_request(scripted: Live):
    """What a page can send without asking first has another content type."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        headers = {"Content-Type": kind} if kind else {}
        reply = scripted.client.post(CHAT, content=b'{"messages": []}', headers=headers)
        assert reply.status_code == 415


def test_an_allowed_origin_may_send_the_headers_that_it_asks_for(guarded: Live):
    """OpenAI's SDK sends headers of its own."""
    wanted = {"authorization", "content-type", "x-stainless-os", "x-stainless-helper-method"}
    headers = {"Origin": "http://page.example", "Access-Control-Request-Method": "POST"}
    headers["Access-Control-Request-Headers"] = ",".join(wanted)
    reply = guarded.client.options(CHAT, headers=headers)
    allowed = reply.headers["access-control-allow-headers"].split(",")
    assert wanted <= {name.strip().lower() for name in allowed}


def test_an_allowed_origin_is_named_and_no_wildcard_is_sent(guarded: Live):
    origin = {"Origin": "http://page.example"}
    asked = origin | {"Access-Control-Request-Method": "POST"}
    preflight = guarded.client.options(CHAT, headers=asked)
    reply = guarded.client.post(
        CHAT, json=QUESTION, headers=origin | {"Authorization": f"Bearer {KEY}"}
    )
    refused = guarded.client.post(CHAT, json=QUESTION, headers=origin)
    assert [r.status_code for r in (preflight, reply, refused)] == [200, 200, 401]
    for answer in (preflight, reply, refused):
        assert answer.headers["access-control-allow-origin"] == "http://page.example"
        assert answer.headers["vary"].split(", ")[0] == "Origin"
    evil = guarded.client.options(CHAT, headers=asked | {"Origin": "http://evil.example"})
    assert evil.status_code == 400
    assert "access-control-allow-origin" not in evil.headers


SECRET = "the word nobody may read"


def test_neither_logs_nor_output_hold_prompts_or_answers(directory, caplog, capfd):
    caplog.set_level(logging.DEBUG)

    def broken(call):
        if call == "model.open_target":
            raise RuntimeError(SECRET)

    engine = scripted_engine(directory)
    with live(lambda: engine) as server:
        answer = server.ask(SECRET)["choices"][0]["message"]["content"]
        server.chat([{"role": "user", "content": SECRET}], n=SECRET)
        server.client.post(CHAT, content=SECRET, headers={"Content-Type": "application/json"})
        server.client.get(f"/v1/models/{SECRET}")
        engine.target.model.fault = broken
        failed = server.chat([{"role": "user", "content": SECRET}], temperature=1)
        assert failed.status_code == 500
    clients = ("httpx2", "httpcore2")
    own = [record for record in caplog.records if not record.name.startswith(clients)]
    logged = "\n".join(map(logging.Formatter().format, own)) + "".join(capfd.readouterr())
    assert "RuntimeError" in logged
    assert SECRET not in logged + failed.text
    assert len(answer) > 5
    assert answer not in logged


def test_errors_name_no_path_of_this_machine(directory, monkeypatch):
    def drops(*_):
        raise CheckpointError(f"the chat template in {directory} drops or repeats answers")

    with live(lambda: scripted_engine(directory)) as server:
        monkeypatch.setattr("mmspec.chat.loaded_model.render", drops)
        reply = server.chat([{"role": "user", "content": "What?"}])
    assert reply.status_code == 500
    assert str(directory) not in reply.text
    assert reply.json()["error"]["type"] == "server_error"


def test_a_model_in_a_directory_is_called_by_its_last_part(pair: Live, pair_paths):
    assert pair.service.model == pair_paths[0].name
    assert "/" not in pair.client.get("/v1/models").json()["data"][0]["id"]


@pytest.fixture(scope="module")
def small(directory):
    """A server with small limits."""
    limits = {"max_body": 20_000 / 2**20, "body_seconds": 0.3, "max_images": 2}
    with live(lambda: scripted_engine(directory), **limits) as server:
        yield server


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("size", [20_001, 79_000])
def test_a_large_body_is_refused(small: Live, size):
    def parts():
        yield from [b" " * 1000] * (size // 1000 + 1)

    with_length = small.client.post(CHAT, content=b" " * size, headers=JSON)
    chunked = small.client.post(CHAT, content=parts(), headers=JSON)
    assert [with_length.status_code, chunked.status_code] == [413, 413]
    assert small.client.post(CHAT, content=b" " * 20_000, headers=JSON).status_code == 400


def test_a_large_body_is_never_held(small: Live, monkeypatch):
    held = []

    class Watched(bytearray):
        def __iadd__(self, part):
            held.append(len(self) + len(part))
            return super().__iadd__(part)

    monkeypatch.setattr("mmspec_server.endpoint.bytearray", Watched, raising=False)
    assert small.client.post(CHAT, content=b" " * 79_000, headers=JSON).status_code == 413
    assert max(held) == 0
    small.client.post(CHAT, content=iter([b" " * 7_000] * 10), headers=JSON)
    small.client.post(CHAT, content=b" " * 19_000, headers=JSON)
    assert 19_000 <= max(held) <= 20_000


def test_of_an_endless_body_little_is_read(small: Live):
    port = small.client.base_url.port
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(head.encode() + b"Content-Length: 99999999999\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_that_trickles_is_cut(small: Live):
    port = small.client.base_url.port
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head.encode() + b"Content-Length: 100\r\n\r\n{")
        assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_more_images_than_allowed_are_refused_before_any_is_decoded(small: Live, monkeypatch):
    decoded = []
    monkeypatch.setattr("mmspec_server.images.decode_picture", decoded.append)
    part = {"type": "image_url", "image_url": {"url": data_url(png())}}
    reply = small.chat([{"role": "user", "content": [part] * 3}])
    assert reply.status_code == 400
    assert "at most 2" in reply.json()["error"]["message"]
    assert not decoded


def test_images_that_the_context_cannot_hold_are_refused_before_any_is_decoded(
    directory, monkeypatch
):
    decoded = []
    monkeypatch.setattr("mmspec_server.images.decode_picture", decoded.append)
    part = {"type": "image_url", "image_url": {"url": data_url(png())}}
    with live(lambda: scripted_engine(directory), max_images=1000) as server:
        fitting = 600 // server.service.engine.target.model.config.image_tokens
        reply = server.chat([{"role": "user", "content": [part] * (fitting + 1)}])
    assert reply.status_code == 400
    assert not decoded


def test_idle_connections_do_not_keep_others_out(scripted: Live):
    port = scripted.client.base_url.port
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    sleep(0.05)
    assert scripted.client.post(CHAT, json=QUESTION).status_code == 200
    for connection in idle:
        connection.close()
