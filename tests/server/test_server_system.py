"""What the server asks of the system: packets that go at once, and one heap for all threads."""

import socket
import subprocess
import sys
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from mmspec_server.app import Service
from mmspec_server.server import CHOSEN, addresses, bound, share_one_heap

HEAPS = """
import ctypes
from threading import Barrier, Thread
from mmspec_server.server import share_one_heap
if {shared}:
    assert share_one_heap({{}})
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
together = Barrier(4)

def allocate():
    together.wait()
    [libc.malloc(1000) for _ in range(1000)]
    together.wait()

threads = [Thread(target=allocate) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
def test_a_server_is_reached_at_the_addresses_that_it_names(host):
    """Its connections wait for no acknowledgement, which costs a first token 40 ms."""
    with bound(host, 0) as listener:
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


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone has a heap for each thread")
@pytest.mark.parametrize("shared", [True, False])
def test_all_threads_share_one_heap(shared):
    """The C library itself lists its heaps."""
    run = [sys.executable, "-c", HEAPS.format(shared=shared)]
    heaps = subprocess.run(run, check=True, capture_output=True, text=True).stdout.count("<heap nr")
    assert heaps == 1 if shared else heaps > 1
    assert not any(share_one_heap({name: "4"}) for name in CHOSEN)  # a user's choice stands


def test_a_directory_has_the_name_of_its_folder(tmp_path, monkeypatch):
    (tmp_path / "mine" / "below").mkdir(parents=True)
    for name, place in ((".", "mine"), ("..", "mine/below"), (str(tmp_path / "mine"), ".")):
        monkeypatch.chdir(tmp_path / place)
        service = SimpleNamespace(engine=SimpleNamespace(target=SimpleNamespace(name=name)))
        assert Service.model.fget(service) == "mine"
