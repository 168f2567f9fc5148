"""`mmspec serve` as a process: where it listens, what it says, how it ends."""

import os
import signal
import socket
import sys
from time import monotonic, sleep

import httpx2
import pytest

from mmspec_cli.main import main
from support.commands import start_process
from support.live_server import CHAT


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def served(arguments):
    """`main` with its errors in the file that the last argument names."""
    *arguments, log = arguments
    sys.stderr = open(log, "w", buffering=1)  # noqa: PTH123, SIM115 - until the process ends
    return main(arguments)


def test_the_process_answers_and_ends_at_sigterm(pair_paths, tmp_path):
    target, draft = map(str, pair_paths)
    port, log = free_port(), tmp_path / "log"
    options = ["--draft", draft, "--backend", "torch", "--port", str(port)]
    process = start_process(served, ["serve", target, *options, str(log)])
    url, end = f"http://127.0.0.1:{port}", monotonic() + 60
    try:
        while "answers at" not in (log.read_text() if log.exists() else ""):
            assert monotonic() < end
            assert process.is_alive(), log.read_text()
            sleep(0.05)
        question = {"messages": [{"role": "user", "content": "What?"}], "max_tokens": 4}
        reply = httpx2.post(url + CHAT, json=question, timeout=60)
        assert reply.status_code == 200
        os.kill(process.pid, signal.SIGTERM)
        process.join(10)
        assert process.exitcode in (-signal.SIGTERM, 128 + signal.SIGTERM)
    finally:
        process.kill()
    note = (
        f"{pair_paths[0].name} answers at {url}/v1, and browsers at {url}; Ctrl-C ends the server"
    )
    assert note in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], ["--host 0.0.0.0", "--api-key"]),
        (["--media-root", "nowhere"], ["--media-root", "nowhere"]),
        (["--port", "70000"], ["--port", "70000"]),
        (["--temperature", "-1"], ["--temperature -1"]),
    ],
)
def test_wrong_options_end_in_one_line_before_models_are_loaded(capsys, arguments, words):
    assert main(["serve", "mini", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert all(word in error for word in words)


def test_a_port_in_use_is_named(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "mini", "--port", str(port)]) == 2
    assert f"--port {port}: Address already in use; choose another" in capsys.readouterr().err


def test_without_its_packages_the_server_says_what_to_install(monkeypatch, capsys):
    for name in ("mmspec_server.server", "uvicorn"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", "mini"]) == 2
    assert 'run pip install "mmspec[server]"' in capsys.readouterr().err
