"""Which images are opened: data URLs, files inside a root, public addresses of named domains."""

import os
import socket
import struct
import zlib
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest
from PIL import Image

from mmspec.prompt.images import decode_picture
from mmspec_server.endpoint import ApiError
from mmspec_server.fetching import Fetcher, RefusedImage, is_public
from mmspec_server.images import ImageReader
from support.live_server import data_url, png

RED = decode_picture(png(), "")


def refused(reader, url):
    with pytest.raises(ApiError) as error:
        reader.picture(url, "messages[0]")
    assert error.value.status == 400
    assert error.value.message.startswith("messages[0]: ")
    return error.value.message


# --- data URLs --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF"])
def test_data_urls_are_opened(kind):
    content = png(kind=kind)
    picture = ImageReader().picture(data_url(content, f"image/{kind.lower()}"), "x")
    assert picture == decode_picture(content, "")


def test_a_picture_that_comes_again_is_decoded_once(monkeypatch):
    decoded, read = [], []

    def decode(content, name):
        decoded.append(name)
        return decode_picture(content, name)

    def decode_base64(text, **options):
        read.append(text)
        return b64decode(text, **options)

    monkeypatch.setattr("mmspec_server.images.decode_picture", decode)
    monkeypatch.setattr("base64.b64decode", decode_base64)
    reader, blue = ImageReader(), decode_picture(png("blue"), "")
    for name in "abc":
        assert reader.picture(data_url(png()), name) == RED
        assert reader.picture(data_url(png("blue")), name) == blue
    assert decoded == ["a", "a"]
    assert len(read) == 2


def test_of_an_animation_the_first_frame_is_taken():
    out = BytesIO()
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    picture = ImageReader().picture(data_url(out.getvalue(), "image/gif"), "x")
    assert picture.image.getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize("kind", ["TIFF", "BMP", "PPM"])
def test_other_formats_are_refused(kind):
    assert "PNG, JPEG, WEBP, GIF" in refused(ImageReader(), data_url(png(kind=kind)))


def bomb(width, height):
    """A PNG of a few bytes that says to be large."""

    def chunk(name, data):
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(1001, 1000), (20_000, 20_000), (60_000, 60_000)])
def test_too_many_pixels_are_refused_by_the_header(size, monkeypatch):
    monkeypatch.setattr("mmspec_server.images.decode_picture", pytest.fail)
    message = refused(ImageReader(pixels=1_000_000), data_url(bomb(*size)))
    assert "1 million pixels" in message


def test_a_large_file_is_refused_before_it_is_decoded(monkeypatch):
    monkeypatch.setattr("base64.b64decode", pytest.fail)
    assert "1000 bytes" in refused(
        ImageReader(file_bytes=1000), "data:image/png;base64," + "A" * 1400
    )


def test_what_is_no_image_url_is_refused():
    for url in ("data:text/html;base64,AAAA", "data:image/png;base64", "data:;base64,A?A"):
        assert "data: URL" in refused(ImageReader(), url)
    for url in ("", "cat.png", "ftp://x/y"):
        assert "data:" not in refused(ImageReader(), url)


def test_data_urls_are_read_by_their_standard():
    content = png()
    base64 = data_url(content).partition(",")[2]
    lines = "\n".join(base64[at : at + 76] for at in range(0, len(base64), 76))
    for url in (
        f"DATA:IMAGE/PNG;BASE64,{base64}",
        f"data:image/png;charset=utf-8;base64,{base64}",
        f"data:image/png;name=a.png;charset=utf-8;base64,{base64}",
        f"data:application/octet-stream;base64,{base64}",
        f"data:;base64,{base64}",
        f"data:image/png;base64,{lines}\n",
        f"data:image/png;base64,{base64.rstrip('=')}",
        f"data:image/png;base64,{quote(base64, safe='')}",
        f"data:image/png,{quote(content)}",
    ):
        assert ImageReader().picture(url, "x") == decode_picture(content, "")


# --- files ------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path):
    (tmp_path / "secret.png").write_bytes(png("blue"))
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "a red.png").write_bytes(png())
    (root / "inner.png").symlink_to(root / "folder" / "a red.png")
    (root / "outer.png").symlink_to(tmp_path / "secret.png")
    (root / "loop.png").symlink_to(root / "loop.png")
    (tmp_path / "root-beside").mkdir()
    (tmp_path / "root-beside" / "red.png").write_bytes(png())
    os.mkfifo(root / "pipe.png")
    return root


def test_files_are_refused_without_a_root(root):
    assert "base64" in refused(ImageReader(), f"file://{root}/inner.png")


@pytest.mark.parametrize("name", ["folder/a%20red.png", "inner.png", "folder/../inner.png"])
def test_files_inside_the_root_are_opened(root, name):
    reader = ImageReader(root=root)
    assert reader.picture(f"file://{root}/{name}", "x") == RED
    assert reader.picture(f"file:{name}", "x") == RED


@pytest.mark.parametrize(
    "name",
    [
        *("outer.png", "loop.png", "none.png", "folder", "pipe.png", "../secret.png", "a%00b.png"),
        *("folder/../../secret.png", "%2e%2e/secret.png", "../root-beside/red.png", ""),
        "x" * 5000,
    ],
)
def test_nothing_outside_the_root_is_opened(root, name):
    for url in (f"file://{root}/{name}", f"file:{name}"):
        message = refused(ImageReader(root=root), url)
        assert str(root) not in message
        assert "secret" not in message


def test_a_large_file_is_not_read(root):
    assert "larger than 50 bytes" in refused(
        ImageReader(root=root, file_bytes=50), "file:folder/a%20red.png"
    )


# --- addresses --------------------------------------------------------------------------------

PUBLIC = "93.184.216.34"


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "100.127.255.255", "224.0.0.1", "255.255.255.255"),
        *("198.18.0.1", "192.0.2.1", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0"),
        *("fc00::1", "fd12::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"),
        *("64:ff9b::a00:1", "2002:a00:1::1", "2001:0:a00:1::1"),
    ],
)
def test_addresses_that_are_not_public(address):
    assert not is_public(address)
    assert is_public(PUBLIC)
    assert is_public("2606:2800:220:1:248:1893:25c8:1946")


class Site(BaseHTTPRequestHandler):
    """A small site; its paths say what happens."""

    def do_GET(self):
        self.server.asked.append((self.headers["Host"], self.path))
        status, headers, body = self.server.pages.get(self.path, (404, {}, b""))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def site():
    """A server on this machine that stands for the public address of images.example."""
    with HTTPServer(("127.0.0.1", 0), Site) as server:
        server.asked = []
        server.pages = {
            "/red.png": (200, {}, png()),
            "/red.png?size=1": (200, {}, png()),
            "/large": (200, {}, b"x" * 5000),
            "/once": (302, {"Location": "/red.png"}, b""),
            "/loop": (302, {"Location": "/loop"}, b""),
            "/away": (301, {"Location": "http://evil.example/red.png"}, b""),
            "/inside": (307, {"Location": "http://inside.example/red.png"}, b""),
            "/file": (302, {"Location": "file:///etc/passwd"}, b""),
            "/nowhere": (302, {}, b""),
        }
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


ADDRESSES = {
    "images.example": [PUBLIC],
    "inside.example": ["10.0.0.1"],
    "both.example": [PUBLIC, "127.0.0.1"],
    "nowhere.example": [],
}


@pytest.fixture
def connected():
    """The public addresses that were connected to."""
    return []


@pytest.fixture
def fetcher(site, connected):
    def connect(address, port, seconds):
        connected.append((address, port))
        return socket.create_connection(("127.0.0.1", site.server_port), seconds)

    return Fetcher([*ADDRESSES], 2.0, lambda host, port: ADDRESSES[host], connect)


def test_nothing_is_fetched_by_default(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", pytest.fail)
    for scheme in ("http", "https"):
        assert "base64" in refused(ImageReader(), f"{scheme}://images.example/red.png")


@pytest.mark.parametrize("path", ["/red.png", "/red.png?size=1", "/once"])
def test_an_image_of_an_allowed_domain_is_fetched_from_the_checked_address(
    fetcher, site, connected, path
):
    reader = ImageReader(fetcher=fetcher)
    assert reader.picture(f"http://images.example{path}", "x") == RED
    assert set(connected) == {(PUBLIC, 80)}
    assert site.asked[0] == ("images.example", path)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://evil.example/red.png", "not allowed"),
        ("http://sub.images.example/red.png", "not allowed"),
        ("http://images.example.evil.example/red.png", "not allowed"),
        ("http://127.0.0.1/red.png", "not allowed"),
        ("http://user@images.example/red.png", "without a port or a user"),
        ("http://images.example:22/red.png", "without a port or a user"),
        ("http://inside.example/red.png", "not public"),
        ("http://both.example/red.png", "not public"),
        ("http://nowhere.example/red.png", "not public"),
        ("http://[::1/red.png", "could not be fetched"),
        ("http://images.example/away", "not allowed"),
        ("http://images.example/inside", "not public"),
        ("http://images.example/file", "without a port"),
        ("http://images.example/loop", "more than 3 times"),
        ("http://images.example/none", "status 404"),
        ("http://images.example/large", "larger than 1000 bytes"),
        ("http://images.example/a b", "could not be fetched"),
    ],
)
def test_what_is_not_allowed_is_not_fetched(fetcher, connected, url, reason):
    with pytest.raises(RefusedImage, match=reason):
        fetcher.fetch(url, 1000)
    assert {address for address, _ in connected} <= {PUBLIC}
    if "images.example/" not in url or "evil" in url:
        assert not connected


def test_a_name_is_resolved_anew_at_every_redirect(fetcher, connected):
    """A name whose second address is private gets no second request."""
    answers = [[PUBLIC], ["127.0.0.1"]]
    moving = Fetcher(["images.example"], 2.0, lambda host, port: answers.pop(0), fetcher.connect)
    with pytest.raises(RefusedImage, match="not public"):
        moving.fetch("http://images.example/once", 1000)
    assert connected == [(PUBLIC, 80)]


def test_a_server_that_is_silent_is_left():
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def connect(address, port, seconds):
            return socket.create_connection(silent.getsockname(), seconds)

        fetcher = Fetcher(["images.example"], 0.2, lambda host, port: [PUBLIC], connect)
        with pytest.raises(RefusedImage, match="could not be fetched"):
            fetcher.fetch("http://images.example/red.png", 1000)


def test_certificates_are_checked_for_the_name(monkeypatch):
    """The connection goes to the checked address, the certificate is the name's."""
    wrapped = []

    class Context:
        def wrap_socket(self, stream, server_hostname):
            wrapped.append(server_hostname)
            raise OSError("enough")

    monkeypatch.setattr("ssl.create_default_context", Context)
    fetcher = Fetcher(["images.example"], 1.0, lambda h, p: [PUBLIC], lambda *_: socket.socket())
    with pytest.raises(RefusedImage):
        fetcher.fetch("https://images.example/red.png", 1000)
    assert wrapped == ["images.example"]
