"""Images from the clipboard, by stand-ins of each system's programs, and from standard input."""

import io
import json
import sys

import pytest

from mmspec.ground.errors import UsageError
from mmspec.prompt.images import open_picture
from mmspec_cli.main import main
from mmspec_cli.terminal.image_sources import clipboard_picture


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """`programs(name=script)`: the only programs that can be found."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(**scripts: str) -> None:
        for name, script in scripts.items():
            file = folder / name.replace("_", "-")
            file.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
            file.chmod(0o755)

    return install


@pytest.fixture(params=["mac", "wayland", "x11"])
def desktop(request, monkeypatch, programs, red):
    """`desktop(kind)`: a system whose clipboard holds red.png, its path or URL, text or nothing."""
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    if request.param == "mac":
        monkeypatch.setattr(sys, "platform", "darwin")
    else:
        monkeypatch.setenv("WAYLAND_DISPLAY" if request.param == "wayland" else "DISPLAY", ":0")

    def holds(kind: str) -> None:
        texts = {"path": str(red), "url": f"file://{red.parent}/blue%20one.png", "text": "hello"}
        text = texts.get(kind, "")
        image = f"cat '{red}'" if kind == "image" else "echo 'image/png not available' >&2; exit 1"
        digits = red.read_bytes().hex().upper()
        apple = (
            f"echo '«data PNGf{digits}»'" if kind == "image" else "echo 'error -1700' >&2; exit 1"
        )
        programs(
            osascript=f'[ "$2" = "get the clipboard as «class PNGf»" ] || exit 9\n{apple}',
            pbpaste=f"printf %s '{text}'",
            wl_paste=f'case "$*" in *image*) {image};; *) printf %s "{text}";; esac',
            xclip=f'case "$*" in *image*) {image};; *) printf %s "{text}";; esac',
        )

    return holds


def test_a_copied_image_is_the_picture(desktop, red):
    desktop("image")
    picture = clipboard_picture()
    assert (picture, picture.name) == (open_picture(red), "clipboard")


@pytest.mark.parametrize("kind", ["text", "nothing"])
def test_a_clipboard_without_an_image_is_said(desktop, kind):
    desktop(kind)
    with pytest.raises(UsageError, match="the clipboard holds no image: copy one"):
        clipboard_picture()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (None, "wl-paste or xclip is required"),
        ("echo no compositor >&2; exit 1", "no compositor"),
        ("echo not a picture", "cannot identify image"),
    ],
)
def test_a_clipboard_that_cannot_be_read_ends_in_one_line(programs, monkeypatch, script, words):
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    if script:
        programs(wl_paste=script)
    with pytest.raises(UsageError, match=f"/paste found no image .*{words}"):
        clipboard_picture()


def test_a_pasted_image_goes_with_the_question_and_is_saved(
    run, pair, red, programs, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    programs(wl_paste=f"cat '{red}'")
    lines = "/paste\nwhich?\n/save talk.json\n/load talk.json\n/images\nwhy?"
    out = [json.loads(line) for line in run("chat", *pair, "--json", stdin=lines).out.splitlines()]
    alone = json.loads(run("generate", red, "--prompt", "which?", *pair, "--json").out)
    assert out[0]["token_ids"] == alone["token_ids"]
    assert [row["image"] for row in out[3]["images"]] == ["clipboard"]


def piped(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_generate_reads_an_image_from_standard_input(run, pair, red, monkeypatch, capsys):
    alone = json.loads(run("generate", red, "--prompt", "which?", *pair, "--json").out)
    piped(monkeypatch, red.read_bytes())
    assert main(["generate", "-", "--prompt", "which?", *pair, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["token_ids"] == alone["token_ids"]


@pytest.mark.parametrize(
    ("arguments", "content", "words"),
    [
        (["-", "--prompt", "-"], b"", "the prompt or an image, not both"),
        (["-", "-", "--prompt", "x"], b"", "one image: give - once"),
        (["-", "--prompt", "x"], b"no image", "standard input: not an image"),
    ],
)
def test_what_standard_input_cannot_give_is_said(monkeypatch, capsys, arguments, content, words):
    piped(monkeypatch, content)
    assert main(["generate", *arguments]) == 2
    assert words in capsys.readouterr().err
