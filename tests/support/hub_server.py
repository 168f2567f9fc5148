"""A hub that serves directories of this machine, in a thread of this process."""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from huggingface_hub import constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(BaseHTTPRequestHandler):
    """Serves directories as repositories, the same at every commit; anything else is 404."""

    repositories: Mapping[str, Path]
    requested: list[str]
    headers_of_every_answer: Mapping[str, str]
    damaged = ""
    """Name of a file of which one bit is sent wrong."""
    ranges: list[tuple[str, int]]
    """The files that were asked for from a byte on."""
    odd_names: tuple[str, ...] = ()
    """Further files in the list of every repository."""
    large: tuple[str, ...] = ()
    """Files that are listed with their SHA-256, as large ones are."""

    def do_GET(self) -> None:
        path = unquote(self.path.split("?")[0]).removeprefix("/api/models").strip("/")
        for name, directory in self.repositories.items():
            revision = path.removeprefix(f"{name}/revision/")
            if re.fullmatch("main|refs/pr/3|[0-9a-f]{40}", revision):
                commit = revision if len(revision) == 40 else COMMIT
                return self.send(json.dumps({"id": name, "sha": commit}).encode())
            if re.fullmatch(rf"{re.escape(name)}/tree/([0-9a-f]{{40}})", path):
                files = [listed(file, file.name in self.large) for file in directory.iterdir()]
                odd = {"type": "file", "size": 1, "oid": "0" * 40}
                files += [odd | {"path": each} for each in self.odd_names]
                return self.send(json.dumps(files).encode())
            if path.startswith(f"{name}/resolve/"):
                file = path.rsplit("/", 1)[1]
                self.requested.append(file)
                return self.send_file((directory / file).read_bytes(), file)
        code = "RevisionNotFound" if "/revision/" in path and "org/" in path else "RepoNotFound"
        return self.send(b"{}", 404, code)

    do_HEAD = do_GET

    def send_file(self, body: bytes, name: str) -> None:
        """Send a file, or what a range asks for."""
        if name == self.damaged:
            body = body[:-1] + bytes([body[-1] ^ 1])
        start = int(self.headers.get("Range", "bytes=0-")[6:].split("-")[0])
        self.ranges += [(name, start)] if start else []
        self.send(body[start:], 206 if start else 200)

    def send(self, body: bytes, status: int = 200, error: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", f'"{git_digest(body)}"')
        asked = re.search(r"/resolve/([0-9a-f]{40})/", self.path)
        self.send_header("X-Repo-Commit", asked[1] if asked else COMMIT)
        if error:
            self.send_header("X-Error-Code", error)
        for name, value in self.headers_of_every_answer.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            with suppress(ConnectionError):  # of a client that was killed
                self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Keep quiet."""


def git_digest(body: bytes) -> str:
    return sha1(b"blob %d\0" % len(body) + body).hexdigest()


def listed(file: Path, is_large: bool) -> dict[str, Any]:
    body = file.read_bytes()
    entry = {"type": "file", "path": file.name, "size": len(body), "oid": git_digest(body)}
    if not is_large:
        return entry
    lfs = {"size": len(body), "oid": sha256(body).hexdigest(), "pointerSize": 9}
    return entry | {"oid": git_digest(b"a pointer"), "lfs": lfs}


PAIR = "llava-hf/llava-1.5-7b-hf", "mjbooo/lvlm68m"
"""A target and a draft that have cards."""


@contextmanager
def serving(
    repositories: Mapping[str, Path], headers: Mapping[str, str] | None = None
) -> Iterator[tuple[type[FakeHub], str]]:
    """Context that yields the hub and its address."""
    FakeHub.repositories = repositories
    FakeHub.requested, FakeHub.ranges = [], []
    FakeHub.damaged, FakeHub.odd_names, FakeHub.large = "", (), ()
    FakeHub.headers_of_every_answer = headers or {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield FakeHub, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def reach(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process ask the hub at `endpoint`."""
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
