"""`mmspec serve` as a process: where it listens, what it says, how it ends, what it asks for."""

import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from threading import Event
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx2
import pytest

from mmspec.ground.errors import UsageError
from mmspec_cli.main import main
from mmspec_cli.terminal.interrupt import handle_signal
from mmspec_server.app import Service
from mmspec_server.server import addresses, listen
from mmspec_terminal import setup as options_setup
from support.live_server import CHAT, PATIENCE, until


def test_a_signal_ends_the_server_in_order_while_it_answers(serve, pair_paths):
    target, draft = map(str, pair_paths)
    terminal, url = serve(target, "--draft", draft, "--grace", "1")
    assert f"{pair_paths[0].name} answers at {url}/v1, and browsers at" in terminal.screen
    assert f"{url}; Ctrl-C ends the server" in terminal.screen
    asked = {"messages": [{"role": "user", "content": "What?"}], "max_tokens": 100_000}
    with (
        httpx2.Client(base_url=url, timeout=PATIENCE) as client,
        ThreadPoolExecutor(1) as pool,
        client.stream("POST", CHAT, json={**asked, "stream": True}) as reply,
    ):
        lines = reply.iter_lines()
        next(lines)
        waiting = pool.submit(client.post, CHAT, json=asked)
        until(lambda: "mmspec_jobs 2" in client.get("/metrics").text)
        os.kill(terminal.process.pid, signal.SIGTERM)
        assert terminal.status() == 128 + signal.SIGTERM
        assert waiting.result().status_code in (200, 503)
        last = "".join([*lines][-2:])
        assert "[DONE]" in last or "shutting down" in last
    assert "Traceback" not in terminal.screen


def load_without_end(arguments: list[str]) -> int:
    """`mmspec`, whose models are never loaded."""
    options_setup.load = wraps(options_setup.load)(lambda **_: Event().wait())
    return main(arguments)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_while_it_loads(open_terminal, number):
    terminal = open_terminal(load_without_end, ["serve", "mini", "--port", "0"])
    terminal.wait("loading")
    os.kill(terminal.process.pid, number)
    terminal.process.join(10)
    assert terminal.process.exitcode == -number


def test_a_signal_that_is_ignored_stays_so_while_it_loads(monkeypatch):
    """Another thread than the main one, which alone may handle signals, can serve."""
    handlers = []

    def load(**_):
        handlers.append(signal.getsignal(signal.SIGINT))
        raise UsageError("enough")

    monkeypatch.setattr(options_setup, "load", wraps(options_setup.load)(load))
    command = ["serve", "mini", "--port", "0"]
    with handle_signal(signal.SIGINT, signal.SIG_IGN):
        assert main(command) == 2
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(main, command).result() == 2
    assert handlers == [signal.SIG_IGN, signal.getsignal(signal.SIGINT)]


def test_it_says_where_others_reach_it_and_what_the_bundled_model_knows(serve, tmp_path):
    """A setting of the file that the model has none for is left out."""
    (tmp_path / "mmspec").mkdir()
    (tmp_path / "mmspec/config.toml").write_text("thinking = 'off'")
    remote = "--host", "0.0.0.0", "--api-key", "k"
    terminal, url = serve("mini", *remote, XDG_CONFIG_HOME=str(tmp_path))
    assert "mini: Knows only the pictures" in terminal.screen
    assert "mini has no setting for --thinking: it is left out" in terminal.screen
    assert f"{url}; Ctrl-C ends the server" in terminal.screen


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


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "::"])
def test_a_server_is_reached_at_the_addresses_that_it_names(host):
    """Its connections wait for no acknowledgement, which costs a first token 40 ms."""
    with listen(host, 0) as listener:
        port = listener.getsockname()[1]
        first, *others = addresses(host, port)
        assert first == f"http://{'[::1]' if host == '::1' else '127.0.0.1'}:{port}"
        assert not others or host in ("0.0.0.0", "::")
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
