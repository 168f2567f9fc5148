"""`mmspec serve` as a process: where it listens, what it says, how it ends, what it asks for."""

import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from mmspec_cli.main import main
from mmspec_server.app import Service
from mmspec_server.server import addresses, listen
from support.live_server import PATIENCE
from support.serve_process import Served, free_port, serve


@pytest.fixture
def started(tmp_path):
    """A function that starts a server and waits until it answers."""
    servers = []

    def start(*options: str) -> Served:
        port = free_port()
        servers.append(serve([*options, "--backend", "torch"], tmp_path / f"log-{port}", port))
        servers[-1].wait()
        return servers[-1]

    yield start
    for server in servers:
        server.process.kill()


def test_a_signal_ends_the_server_in_order_while_it_answers(started, pair_paths):
    target, draft = map(str, pair_paths)
    server = started(target, "--draft", draft, "--grace", "1")
    places = f"{server.url}/v1, and browsers at {server.url}"
    assert f"{pair_paths[0].name} answers at {places}; Ctrl-C ends the server" in server.said
    with ThreadPoolExecutor(1) as pool, server.stream(max_tokens=100_000) as lines:
        next(lines)
        waiting = pool.submit(server.ask)
        while "mmspec_jobs 2" not in server.metrics():
            sleep(0.02)
        os.kill(server.process.pid, signal.SIGTERM)
        server.process.join(PATIENCE)
        assert waiting.result().status_code in (200, 503)
        last = "".join([*lines][-2:])
        assert "[DONE]" in last or "shutting down" in last
    assert server.process.exitcode == 128 + signal.SIGTERM
    assert server.said.count("\n") <= 2
    assert "Traceback" not in server.said


def test_it_says_where_others_reach_it_and_what_the_bundled_model_knows(started):
    server = started("mini", "--host", "0.0.0.0", "--api-key", "k")
    assert "mini: Knows only the pictures" in server.said
    assert f"browsers at {server.url};" in server.said


def test_what_cannot_be_served_ends_in_one_line_before_models_are_loaded(capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, said in (
            ("--host 0.0.0.0", "--api-key"),
            ("--media-root nowhere", "nowhere"),
            ("--port 70000", "70000"),
            ("--temperature -1", "--temperature -1"),
            (f"--port {port}", "Address already in use; choose another"),
        ):
            assert main(["serve", "mini", *words.split()]) == 2
            error = capsys.readouterr().err
            assert error.count("\n") == 1
            assert words.split()[0] in error
            assert said in error
    for name in ("mmspec_server.server", "uvicorn"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", "mini"]) == 2
    assert 'run pip install "mmspec[server]"' in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
def test_a_server_is_reached_at_the_addresses_that_it_names(host):
    """Its connections wait for no acknowledgement, which costs a first token 40 ms."""
    with listen(host, 0) as listener:
        port = listener.getsockname()[1]
        first, *others = addresses(host, port)
        assert first == f"http://{'[::1]' if host == '::1' else '127.0.0.1'}:{port}"
        assert not others or host == "0.0.0.0"
        for place in map(urlsplit, (first, *others)):
            assert place.hostname
            with (
                socket.create_connection((place.hostname, place.port)),
                listener.accept()[0] as connection,
            ):
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_directory_has_the_name_of_its_folder(tmp_path, monkeypatch):
    (tmp_path / "mine" / "below").mkdir(parents=True)
    for name, place in ((".", "mine"), ("..", "mine/below"), (str(tmp_path / "mine"), ".")):
        monkeypatch.chdir(tmp_path / place)
        service = SimpleNamespace(engine=SimpleNamespace(target=SimpleNamespace(name=name)))
        assert Service.model.fget(service) == "mine"
