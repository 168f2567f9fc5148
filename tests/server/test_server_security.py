"""Who is answered, and what neither replies nor logs tell."""

import logging
import socket
from unittest.mock import Mock

import pytest

from mmspec.chat.options import Options
from mmspec.ground.errors import CheckpointError, DraftError, PluginError, UsageError
from mmspec_server.settings import ServerSettings
from support.live_server import CHAT, Live, live, shown, until, words
from support.scripted_engine import scripted_engine

QUESTION = {"messages": [{"role": "user", "content": "What?"}]}
KEY = "a key, perhaps longer"


@pytest.fixture(scope="module")
def guarded(directory):
    """A server with a key, a name and an origin of its own."""
    allowed = {
        "allow_host": ("box.local:8585", "fd00::5"),
        "allow_origin": ("http://page.example",),
    }
    with live(lambda: scripted_engine(directory), api_key=KEY, **allowed) as server:
        yield server


@pytest.mark.parametrize("isolate", [False, True])
def test_lookup_reads_what_others_asked_unless_they_are_isolated(directory, isolate):
    options = Options(drafting="lookup", gamma=4, max_new_tokens=24)
    with live(lambda: scripted_engine(directory, draft=None), options, isolate=isolate) as server:
        question = [words("What is on the table?"), shown("red")]
        first, other = (server.ask(question) for _ in range(2))
        assert first["choices"] == other["choices"]
        service = server.service
        memory = service.engine.memory
        cached = other["usage"]["prompt_tokens_details"]["cached_tokens"]
        features, decoded = service.engine.target.features._features, service.reader._pictures
        assert [bool(memory), bool(cached), bool(decoded._values)] == [not isolate] * 3
        until(lambda: bool(features._values) is not isolate)  # after the reply, before the next
        assert isolate or memory.text.index.length > 2 * 24


def test_an_address_that_others_reach_needs_a_key():
    for host in ("0.0.0.0", "192.168.1.7", "::", "example.com"):
        with pytest.raises(UsageError, match="--api-key"):
            ServerSettings(host=host)
        assert ServerSettings(host=host, api_key=KEY).host == host
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert ServerSettings(host=host).api_key is None


def test_an_origin_that_no_page_has_is_refused():
    for origin in ("*", "http://*", "http://page.example/", "page.example", "http://a/b", ""):
        with pytest.raises(UsageError, match="such as http://localhost:3000"):
            ServerSettings(allow_origin=(origin,))
    for origin in ("http://Box.local:3000", "https://box.local:443", "http://box.local:80"):
        with pytest.raises(UsageError, match="without capitals and a usual port"):
            ServerSettings(allow_origin=(origin,))
    allowed = ("null", "http://localhost:3000", "chrome-extension://abc", "http://box.local:8080")
    assert ServerSettings(allow_origin=allowed).allow_origin == allowed


@pytest.mark.parametrize("host", ["", "[box", ":8585"])
def test_a_host_without_a_name_is_refused(host):
    with pytest.raises(UsageError, match="--allow-host"):
        ServerSettings(allow_host=(host,))


@pytest.mark.parametrize("key", ["", " ", f" {KEY}", "schlüssel", "line\n"])
def test_a_key_that_no_request_can_show_is_refused(key):
    with pytest.raises(UsageError, match="--api-key"):
        ServerSettings(api_key=key)


WRONG = ("", KEY, "Bearer", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", f"Basic {KEY}")


def test_a_request_without_the_key_is_refused(guarded: Live):
    for headers in ({}, *({"Authorization": value} for value in WRONG)):
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


OWN = ("127.0.0.1", "localhost:8585", "[::1]:8585")
OTHERS = ("evil.example", "evil.example:8585", "127.0.0.1.evil.example", "localhost.evil.example")
OTHERS += ("192.168.1.7", "[", "")


def test_a_name_bound_to_this_address_by_others_is_refused(scripted: Live, guarded: Live):
    statuses = [
        scripted.client.post(CHAT, json=QUESTION, headers={"Host": host}).status_code
        for host in (*OWN, *OTHERS)
    ]
    assert statuses == [200] * len(OWN) + [403] * len(OTHERS)
    for name in ("box.local:8585", "[fd00::5]:8585"):
        allowed = {"Authorization": f"Bearer {KEY}", "Host": name}
        assert guarded.client.get("/v1/models", headers=allowed).status_code == 200


def test_a_server_that_others_reach_answers_under_its_addresses_and_names(directory):
    settings = {"host": "0.0.0.0", "api_key": KEY, "allow_host": ("Box.Local",)}
    with live(lambda: scripted_engine(directory), **settings) as server:
        for name in ("192.168.1.7:8585", "box.local:8585", "localhost", "evil.example"):
            headers = {"Authorization": f"Bearer {KEY}", "Host": name}
            reply = server.client.get("/v1/models", headers=headers)
            assert reply.status_code == (403 if "evil" in name else 200)


def test_other_web_pages_may_not_ask(scripted: Live):
    own = str(scripted.client.base_url).rstrip("/")
    others = ("http://evil.example", "null", "https://localhost", "http://127.0.0.1:1")
    for origin in (own, *others, "http://page.example"):
        reply = scripted.client.post(CHAT, json=QUESTION, headers={"Origin": origin})
        assert reply.status_code == (200 if origin == own else 403)
        assert "access-control-allow-origin" not in reply.headers


def test_a_form_of_a_web_page_is_no_request(scripted: Live):
    """What a page can send without asking first has another content type."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        headers = {"Content-Type": kind} if kind else {}
        reply = scripted.client.post(CHAT, content=b'{"messages": []}', headers=headers)
        assert reply.status_code == 415


def test_an_allowed_origin_is_named_and_no_wildcard_is_sent(guarded: Live):
    """It may send the headers that it asks for; OpenAI's SDK sends some of its own."""
    origin = {"Origin": "http://page.example"}
    asked = origin | {"Access-Control-Request-Method": "POST"}
    wanted = {"authorization", "content-type", "x-stainless-os"}
    own = {"Access-Control-Request-Headers": ",".join(wanted)}
    preflight = guarded.client.options(CHAT, headers=asked | own)
    allowed = preflight.headers["access-control-allow-headers"].lower().split(",")
    assert wanted <= {name.strip() for name in allowed}
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


def test_errors_name_a_faulty_drafter_and_no_path_of_this_machine(directory):
    failed = {
        CheckpointError(f"the weights in {directory} are damaged"): "see the server's log",
        PluginError("the drafter mine failed in mine", f"{directory} is lost"): "or a plug-in",
        DraftError("Mine drafted a list: return HostDraft(tokens)"): "Mine drafted a list: return",
    }
    engine = scripted_engine(directory)
    with live(lambda: engine) as server:
        for error, said in failed.items():
            engine.target.model.fault = Mock(side_effect=error)
            reply = server.chat([{"role": "user", "content": "What?"}])
            assert reply.status_code == 500
            assert said in reply.json()["error"]["message"]
            assert reply.json()["error"]["type"] == "server_error"
            assert str(directory) not in reply.text


@pytest.fixture(scope="module")
def small(directory):
    """A server with small limits."""
    limits = {"max_body": 20_000 / 2**20, "max_images": 2}
    with live(lambda: scripted_engine(directory), **limits) as server:
        yield server


JSON = {"Content-Type": "application/json"}


def sent_raw(server, length, body=b""):
    """The status line of a reply to a request of so many bytes, of which few are sent."""
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", server.client.base_url.port)) as connection:
        connection.sendall(head.encode() + f"Content-Length: {length}\r\n\r\n".encode() + body)
        return connection.recv(12)


def test_of_an_endless_body_little_is_read_and_one_that_trickles_is_cut(directory):
    with live(lambda: scripted_engine(directory), max_body=0.02, body_seconds=0.3) as server:
        assert sent_raw(server, 99_999_999_999) == b"HTTP/1.1 413"
        assert sent_raw(server, 100, b"{") == b"HTTP/1.1 408"


def test_a_large_body_is_refused_and_never_held(small: Live, monkeypatch):
    held = []

    class Watched(bytearray):
        def __iadd__(self, part):
            held.append(len(self) + len(part))
            return super().__iadd__(part)

    monkeypatch.setattr("mmspec_server.endpoint.bytearray", Watched, raising=False)
    assert small.client.post(CHAT, content=b" " * 79_000, headers=JSON).status_code == 413
    assert max(held) == 0
    in_parts = small.client.post(CHAT, content=iter([b" " * 7_000] * 10), headers=JSON)
    assert in_parts.status_code == 413
    small.client.post(CHAT, content=b" " * 19_000, headers=JSON)
    assert 19_000 <= max(held) <= 20_000


def test_images_too_many_for_the_limit_or_the_context_are_not_decoded(
    small: Live, directory, monkeypatch
):
    monkeypatch.setattr("mmspec_server.images.decode_picture", pytest.fail)
    reply = small.chat([{"role": "user", "content": [shown("red")] * 3}])
    assert (reply.status_code, "at most 2" in reply.text) == (400, True)
    with live(lambda: scripted_engine(directory), max_images=1000) as server:
        fitting = 600 // server.service.engine.target.model.config.image_tokens
        reply = server.chat([{"role": "user", "content": [shown("red")] * (fitting + 1)}])
    assert reply.status_code == 400
