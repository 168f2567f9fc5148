"""Which images are opened: data URLs, files inside a root, public addresses of named domains."""

import os
import socket
import ssl
from contextlib import suppress
from threading import Timer
from time import monotonic, sleep
from unittest.mock import Mock
from urllib.parse import quote, unquote_to_bytes

import pytest
from PIL import Image

from mmspec.ground.errors import ImageError
from mmspec.prompt.images import decode_picture
from mmspec_server.endpoint import ApiError
from mmspec_server.images import ImageReader, cut, fetch, is_public
from mmspec_server.settings import ServerSettings
from support.live_server import data_url, png

RED = decode_picture(png(), "")


def reader(**settings):
    return ImageReader(ServerSettings(**settings))


def refused(images, url):
    with pytest.raises(ApiError) as error:
        images.picture(url, "messages[0]")
    assert error.value.status == 400
    assert error.value.message.startswith("messages[0]: ")
    return error.value.message


# --- data URLs --------------------------------------------------------------------------------


def test_data_urls_are_read_by_their_standard():
    for kind in ("PNG", "WEBP", "GIF"):
        content = png(kind=kind)
        url = data_url(content, f"image/{kind.lower()}")
        assert reader().picture(url, "x") == decode_picture(content, "")
    content = png()
    base64 = data_url(content).partition(",")[2]
    lines = "\n".join(base64[at : at + 76] for at in range(0, len(base64), 76))
    for url in (
        f"DATA:IMAGE/PNG;BASE64,{base64}",
        f"data:image/png;name=a.png;charset=utf-8;base64,{base64}",
        f"data:application/octet-stream;base64,{base64}",
        f"data:;base64,{base64}",
        f"data:image/png;base64,{lines}\n",
        f"data:image/png;base64,{base64.rstrip('=')}",
        f"data:image/png;base64,{quote(base64, safe='')}",
        f"data:image/png,{quote(content)}",
    ):
        assert reader().picture(url, "x") == RED


def test_a_picture_that_comes_again_is_decoded_once(monkeypatch):
    images, blue = reader(), decode_picture(png("blue"), "")
    decode, decode_url = Mock(wraps=decode_picture), Mock(wraps=unquote_to_bytes)
    monkeypatch.setattr("mmspec_server.images.decode_picture", decode)
    monkeypatch.setattr("mmspec_server.images.unquote_to_bytes", decode_url)
    for name in "abc":
        assert (red := images.picture(data_url(png()), name)) == RED
        assert red.name == ""  # notes call it an image
        assert images.picture(data_url(png("blue")), name) == blue
    assert decode_url.call_count == 2
    assert [call.args[1] for call in decode.call_args_list] == ["a"] * 2


def test_too_large_images_are_refused_before_they_are_decoded(monkeypatch):
    monkeypatch.setattr("mmspec_server.images.decode_picture", pytest.fail)
    for limit_of_pillow in (Image.MAX_IMAGE_PIXELS, 1000):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit_of_pillow)
        message = refused(reader(max_pixels=1), data_url(png(size=(1001, 1000))))
        assert "1 million pixels" in message
    monkeypatch.setattr("mmspec_server.images.FILE_BYTES", 1000)
    for encoded in (";base64," + "A" * 1400, "," + "A" * 1001):
        assert "1000 bytes" in refused(reader(), f"data:image/png{encoded}")


def test_other_kinds_are_refused():
    for kind in ("TIFF", "BMP", "PPM"):
        assert "PNG, JPEG, WEBP, GIF" in refused(reader(), data_url(png(kind=kind)))
    for url in ("data:text/html;base64,AAAA", "data:image/png;base64", "data:;base64,A?A"):
        assert "data: URL" in refused(reader(), url)
    for url in ("", "cat.png", "ftp://x/y"):
        assert "data:" not in refused(reader(), url)


# --- files ------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (tmp_path / "root-beside").mkdir()
    inside, secret = root / "folder" / "a red.png", tmp_path / "secret.png"
    for file in (inside, tmp_path / "root-beside" / "red.png", secret):
        file.write_bytes(png())
    for name, place in {"inner": inside, "outer": secret, "loop": root / "loop.png"}.items():
        (root / f"{name}.png").symlink_to(place)
    os.mkfifo(root / "pipe.png")
    return root


def test_files_inside_a_root_are_opened_within_a_size(root, monkeypatch):
    names = "folder/a%20red.png", "inner.png", "folder/../inner.png"
    urls = [url for name in names for url in (f"file://{root}/{name}", f"file:{name}")]
    for url in urls:
        assert reader(media_root=root).picture(url, "x") == RED
        assert "base64" in refused(reader(), url)
    monkeypatch.setattr("mmspec_server.images.FILE_BYTES", 50)
    for url in urls:
        assert "larger than 50 bytes" in refused(reader(media_root=root), url)


OUTSIDE = """
outer.png loop.png none.png folder pipe.png ../secret.png a%00b.png folder/../../secret.png
%2e%2e/secret.png ../root-beside/red.png
"""


def test_nothing_outside_the_root_is_opened(root):
    for name in (*OUTSIDE.split(), "", "x" * 5000):
        for url in (f"file://{root}/{name}", f"file:{name}"):
            message = refused(reader(media_root=root), url)
            assert str(root) not in message
            assert "secret" not in message


# --- addresses --------------------------------------------------------------------------------

PUBLIC = "93.184.216.34"


PRIVATE = """
127.0.0.1 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 224.0.0.1
255.255.255.255 198.18.0.1 192.0.2.1 ::1 :: fe80::1%eth0 fc00::1 ff02::1
::ffff:127.0.0.1 ::ffff:100.64.0.1 ::ffff:224.0.0.1 64:ff9b::a00:1 2002:a00:1::1 2001:0:a00:1::1
"""


def test_addresses_that_are_not_public():
    assert not [address for address in PRIVATE.split() if is_public(address)]
    assert is_public(PUBLIC)
    assert is_public("2606:2800:220:1:248:1893:25c8:1946")


def reply(status, body=b"", **headers):
    """The bytes of a reply over HTTP."""
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n{''.join(lines)}\r\n"
    return head.encode() + body


def redirect(place):
    return reply(302, Location=place)


IMAGE = reply(200, png())


class Web:
    """Connections that get the next of `replies`; the addresses and requests that came."""

    def __init__(self, *replies):
        self.replies, self.connected, self.sockets = list(replies), [], []

    def __call__(self, address, seconds):
        self.connected.append(address)
        ours, theirs = socket.socketpair()
        ours.settimeout(seconds)
        theirs.sendall(self.replies.pop(0))
        self.sockets.append(theirs)
        return ours

    def __del__(self):
        for each in self.sockets:
            each.close()


ADDRESSES = {
    "images.example": [PUBLIC],
    "inside.example": ["10.0.0.1"],
    "both.example": [PUBLIC, "127.0.0.1"],
}


@pytest.fixture
def connect(monkeypatch):
    """Function that lets hosts have addresses, and connections to them those of a web."""

    def connected(web, resolve=ADDRESSES.__getitem__):
        def found(host, _port, **_):
            return [(None, None, None, "", (address, 0)) for address in resolve(host)]

        monkeypatch.setattr("socket.getaddrinfo", found)
        monkeypatch.setattr("socket.create_connection", web)
        return web

    return connected


def test_an_image_of_an_allowed_domain_is_fetched_from_the_checked_address(connect):
    """Nothing is fetched by default."""
    for path, *replies in (("/red.png", IMAGE), ("/a?size=1", redirect("/red.png"), IMAGE)):
        web, url = connect(Web(*replies)), f"http://images.example{path}"
        assert "base64" in refused(reader(), url)
        assert reader(allow_url=(*ADDRESSES,)).picture(url, "x") == RED
        assert set(web.connected) == {(PUBLIC, 80)}
        request, host, *_ = web.sockets[0].recv(999).decode().split("\r\n")
        assert (request.split()[1], host) == (path, "Host: images.example")
        assert not web.replies


UNCONNECTED = {
    "http://evil.example/red.png": "not allowed",
    "http://sub.images.example/red.png": "not allowed",
    "http://images.example.evil.example/red.png": "not allowed",
    "http://127.0.0.1/red.png": "not allowed",
    "http://user@images.example/red.png": "without a port or a user",
    "http://images.example:22/red.png": "without a port or a user",
    "http://inside.example/red.png": "not public",
    "http://both.example/red.png": "not public",
    "http://[::1/red.png": "could not be fetched",
}
CONNECTED = [
    (redirect("http://evil.example/red.png"), "not allowed"),
    (redirect("http://inside.example/red.png"), "not public"),
    (redirect("file:///etc/passwd"), "without a port"),
    (redirect("/loop"), "more than 3 times"),
    (reply(404), "status 404"),
    (reply(200, b"x" * 5000), "larger than 1000 bytes"),
    (b"SSH-2.0-OpenSSH_9.6\r\n", "could not be fetched"),
    (b"HTTP/1.1 200 ", "it took too long"),  # and then it is silent
]


def test_what_is_not_allowed_is_not_fetched(connect):
    connect(Web())
    for url, reason in UNCONNECTED.items():
        with pytest.raises(ImageError, match=reason):
            fetch(url, ADDRESSES, 1000)
    for answer, reason in CONNECTED:
        web = connect(Web(*[answer] * 9))
        with pytest.raises(ImageError, match=reason):
            fetch("http://images.example/x", ADDRESSES, 1000, 0.2 if "long" in reason else 5)
        assert {address for address, _ in web.connected} == {PUBLIC}


def test_a_reply_that_trickles_ends_at_the_deadline(connect):
    """Each of its parts comes in time."""

    def trickle():
        with suppress(OSError):  # once it is cut
            while True:
                web.sockets[0].sendall(b"A: b\r\n")
                sleep(0.05)

    web, start = connect(Web(b"HTTP/1.1 200 x\r\n")), monotonic()
    Timer(0.1, trickle).start()
    with pytest.raises(ImageError, match="it took too long"):
        fetch("http://images.example/x", ADDRESSES, 1000, 0.5)
    assert monotonic() - start < 3  # http.client ends at 100 headers


def test_a_connection_is_cut_under_its_reader():
    """TLS's state stays, for a reader that comes to it; a socket that is closed is none to cut."""
    context, (ours, theirs) = ssl.create_default_context(), socket.socketpair()
    context.check_hostname = False
    with theirs, context.wrap_socket(ours, do_handshake_on_connect=False) as stream:
        cut(stream)
        with pytest.raises(BrokenPipeError):
            stream.do_handshake()
    cut(stream)


def test_a_name_is_resolved_anew_at_every_redirect(connect):
    """A name whose second address is private gets no second request."""
    answers = [[PUBLIC], ["127.0.0.1"]]
    web = connect(Web(redirect("/red.png"), IMAGE), lambda _: answers.pop(0))
    with pytest.raises(ImageError, match="not public"):
        fetch("http://images.example/once", ADDRESSES, 1000)
    assert web.connected == [(PUBLIC, 80)]


def test_certificates_are_checked_for_the_name(connect, monkeypatch):
    """The connection goes to the checked address, the certificate is the name's."""
    context = Mock()
    context().wrap_socket.side_effect = OSError("enough")
    monkeypatch.setattr("ssl.create_default_context", context)
    connect(lambda *_: socket.socket())
    with pytest.raises(ImageError):
        fetch("https://images.example/red.png", ADDRESSES, 1000)
    assert context().wrap_socket.call_args.kwargs == {"server_hostname": "images.example"}
