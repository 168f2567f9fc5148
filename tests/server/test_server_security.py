"""Who is answered, and what neither replies nor logs tell."""

import logging
import socket
from dataclasses import replace
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
        target, pictures = service.engine.target, service.reader._pictures._values
        features, texts = target.features._features, target.tokenizer._cache._values
        assert [*map(bool, (memory, cached, pictures, texts))] == [not isolate] * 4
        until(lambda: bool(features._values) is not isolate)  # after the reply, before the next
        assert isolate or memory.text.index.length > 2 * 24


SETTINGS = {
    "--api-key": [
        *({"host": host} for host in ("0.0.0.0", "192.168.1.7", "::", "example.com")),
        *({"api_key": key} for key in ("", " ", f" {KEY}", "schlüssel", "line\n")),
    ],
    "--allow-host": [{"allow_host": (host,)} for host in ("", "[box", ":8585", "*.a", "http://a")],
    "--allow-url": [
        {"allow_url": (name,)}
        for name in ("", "Box.local", "http://box.local", "box.local:443", "*.local")
    ],
    "such as http://localhost:3000": [
        {"allow_origin": (origin,)}
        for origin in ("*", "http://*", "http://page.example/", "page.example", "http://a/b", "")
    ],
    "without capitals and a usual port": [
        {"allow_origin": (origin,)}
        for origin in ("http://Box.local:3000", "https://box.local:443", "http://box.local:80")
    ],
}
ORIGINS = ("null", "http://localhost:3000", "chrome-extension://abc", "http://box.local:8080")


def test_an_address_for_others_needs_a_key_and_who_may_ask_a_name_that_can_be():
    for reason, refused in SETTINGS.items():
        for settings in refused:
            with pytest.raises(UsageError, match=reason):
                ServerSettings(**settings)
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert ServerSettings(host=host).api_key is None
    settings = ServerSettings(host="0.0.0.0", api_key=KEY, allow_origin=ORIGINS)
    assert (settings.api_key, settings.allow_origin) == (KEY, ORIGINS)


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
    compare = Mock(return_value=False)
    monkeypatch.setattr("hmac.compare_digest", compare)
    for key in ("b", "a", KEY, "a" * 1000):
        headers = {"Authorization": f"Bearer {key}"}
        assert guarded.client.get("/v1/models", headers=headers).status_code == 401
    assert [[*map(len, call.args)] for call in compare.call_args_list] == [[32, 32]] * 4


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
    names = {"192.168.1.7:8585": 200, "box.local:8585": 200, "localhost": 200, "evil.example": 403}
    with live(lambda: scripted_engine(directory), **settings) as server:
        for name, status in names.items():
            headers = {"Authorization": f"Bearer {KEY}", "Host": name}
            assert server.client.get("/v1/models", headers=headers).status_code == status


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
        for fault, said in failed.items():
            engine.target.model.fault = Mock(side_effect=fault)
            reply = server.client.post(CHAT, json=QUESTION)
            error = reply.json()["error"]
            assert (reply.status_code, error["type"]) == (500, "server_error")
            assert said in error["message"]
            assert str(directory) not in reply.text


@pytest.fixture(scope="module")
def small(directory):
    """A server with small limits."""
    limits = {"max_body": 20_000 / 2**20, "max_images": 2, "body_seconds": 0.3}
    with live(lambda: scripted_engine(directory), **limits) as server:
        yield server


JSON = {"Content-Type": "application/json"}


def test_of_an_endless_body_little_is_read_and_one_that_trickles_is_cut(small: Live):
    for length, body, status in ((99_999_999_999, b"", b"413"), (100, b"{", b"408")):
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", small.client.base_url.port)) as connection:
            connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + body)
            assert connection.recv(12) == b"HTTP/1.1 " + status


def test_a_large_body_is_refused_and_never_held(small: Live, monkeypatch):
    held = []

    class Watched(bytearray):
        def __iadd__(self, part):
            held.append(len(self) + len(part))
            return super().__iadd__(part)

    monkeypatch.setattr("mmspec_server.endpoint.bytearray", Watched, raising=False)
    assert small.client.post(CHAT, content=b" " * 79_000, headers=JSON).status_code == 413
    assert max(held, default=0) == 0
    in_parts = small.client.post(CHAT, content=iter([b" " * 7_000] * 10), headers=JSON)
    assert in_parts.status_code == 413
    small.client.post(CHAT, content=b" " * 19_000, headers=JSON)
    assert 19_000 <= max(held) <= 20_000


def test_images_too_many_for_the_limit_or_the_context_are_not_decoded(
    small: Live, scripted: Live, monkeypatch
):
    monkeypatch.setattr("mmspec_server.images.decode_picture", pytest.fail)
    fitting = 600 // scripted.service.engine.target.model.config.image_tokens
    many = replace(scripted.service.settings, max_images=1000)
    monkeypatch.setattr(scripted.service, "settings", many)
    for server, count in ((small, 3), (scripted, fitting + 1)):
        reply = server.chat([{"role": "user", "content": [shown("red")] * count}])
        assert (reply.status_code, "at most 2" in reply.text) == (400, server is small)
