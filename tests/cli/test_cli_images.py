"""Images among the words of a message, from the clipboard and from standard input."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from mmspec.ground.errors import ImageError, UsageError
from mmspec.prompt.images import open_picture
from mmspec_cli.terminal.attachments import AGAIN, take_images
from mmspec_cli.terminal.image_sources import clipboard_picture

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize(
    ("message", "text", "names"),
    [
        ("what is red.png?", "what is?", ["red.png"]),
        ("red.png and 'blue one.png', please", "and, please", ["red.png", "blue one.png"]),
        ('"blue one.png" colour?', "colour?", ["blue one.png"]),
        (r"colour of blue\ one.png?", "colour of?", ["blue one.png"]),
        ("in \u201cblue one.png\u201d?", "in?", ["blue one.png"]),
        ("~/red.png: what?", "what?", ["red.png"]),
        ("file://{here}/blue%20one.png what?", "what?", ["blue one.png"]),
        ("red.png red.png twice", "twice", ["red.png", "red.png"]),
        ("{here}/red.png。", "。", ["red.png"]),
        ("red.png\u3000これは何", "これは何", ["red.png"]),
        ("{here}/my photo (1).png", "", ["my photo (1).png"]),
        ("(see my photo (1).png.)", "(see.)", ["my photo (1).png"]),
        ("what is in (red.png)?", "what is in?", ["red.png"]),
        ("[red.png] `red.png` **red.png**", "", ["red.png"] * 3),
        ("red.png,blue one.png differ?", "differ?", ["red.png", "blue one.png"]),
        ("is red.png, red.png, brown?", "is, brown?", ["red.png"] * 2),
        ("![a cat](red.png) f(a,,b)  c", "f(a,,b)  c", ["red.png"]),
        ("what's 'red.png'? don't guess", "what's? don't guess", ["red.png"]),
        ('red.png in "' + r"\\ 1 & " * 40, 'in "' + r"\\ 1 & " * 39 + r"\\ 1 &", ["red.png"]),
    ],
)
def test_paths_are_taken_out(here, message, text, names):
    (here / "my photo (1).png").write_bytes((here / "red.png").read_bytes())
    taken = take_images(message.format(here=here))
    assert taken.text == text
    assert [Path(picture.name).name for picture in taken.pictures] == names
    assert taken.remarks == []


@pytest.mark.parametrize(
    "name",
    [
        "Screenshot 2026-11-20 at 3.21.45\u202fPM.png",
        "it's.png",
        'a "quoted" $name`.png',
        "back\\slash.jfif",
    ],
)
def test_a_name_is_one_path_however_a_terminal_or_shell_protects_it(here, name):
    (here / "red.png").rename(here / name)
    path = f"{here}/{name}"
    dragged = re.sub(r"""([ '"()&;!*?$#\[\]{}\\`])""", r"\\\1", path)
    for typed in (dragged, shlex.quote(path), '"' + re.sub(r'(["$`\\])', r"\\\1", path) + '"'):
        taken = take_images(f"{typed} what is this?")
        assert [picture.name for picture in taken.pictures] == [path]
        assert taken.text == "what is this?"


@pytest.mark.parametrize(
    ("message", "remark"),
    [
        ("what's in it? don't guess", None),
        ("README and notes of http://[the page and file://[a]/b", None),
        ("<image> is text   with  its own   gaps", None),
        ("an 'odd quote and \\ backslash", None),
        ("x" * 5000 + ".png", None),
        ("see https://example.org/about, please", "https://example.org/about: nothing is fetched"),
        ("what does README.txt say?", "README.txt: not an image; the model reads the name alone"),
    ],
)
def test_other_words_stay_as_they_are(here, message, remark):
    for name in ("README", "README.txt"):
        (here / name).write_text("x")
    taken = take_images(message)
    assert (taken.text, taken.pictures) == (message, [])
    assert [line.startswith(remark) for line in taken.remarks] == [True] * bool(remark)


@pytest.mark.parametrize(
    ("word", "help_"),
    [
        ("https://example.org/cat.jpg?w=200", "save the image and give its path"),
        ("https://example.org/a.pdf", "nothing is fetched"),
        ("data:image/png;base64,iVBORw0KGgo=", "images are taken from files"),
        ("a.pdf", "pdftoppm -png -r 150 -f 1 -l 1"),
        ("talk.pptx", "export the page that you mean as PNG"),
        ("scan.jp2", "magick FILE.jp2 image.png"),
        ("./notes.txt", "not an image that can be read"),
        ("{here}/none.png", "there is no such file"),
        ("~/none.png", "there is no such file"),
        ("./none.jpg", "there is no such file"),
        ("(none.png)", "there is no such file"),
        ("**none.png**", "there is no such file"),
        ("none.png,no.png", "none.png: there is no such file"),
        ("no photo.png", "a name with spaces needs quotes"),
        ("bad.png", "not an image that can be read"),
        ('"{here}/my foto.png"', "foto"),
        (r"{here}/my\ foto.png", "foto"),
        ('"{here}/My Pictures/a.png"', "Pictures"),
        ("file://{here}/my%20foto.png", "foto"),
        ("{here}/my\u202ffoto.png", "foto"),
    ],
)
def test_what_is_no_readable_image_is_refused_once_and_then_text(here, word, help_):
    (here / "notes.txt").write_text("x")
    (here / "bad.png").write_bytes(b"\x89PNG broken")
    word = word.format(here=here)
    message = f"what is in {word}?"
    with pytest.raises(ImageError) as caught:
        take_images(message)
    assert help_ in str(caught.value)
    assert str(caught.value).endswith(AGAIN)
    taken = take_images(message, as_text=True)
    assert (taken.text, taken.pictures) == (message, [])


@pytest.mark.parametrize("folder", ["Photos", "My Photos", 'a "b" [c]'])
def test_the_offer_to_add_a_folder_s_images_works(chat, here, red, folder):
    (here / folder).mkdir()
    red.rename(here / folder / "red.png")
    offer = re.search("(/image .*) adds them", chat(f"/image {shlex.quote(folder)}").err)[1]
    assert "Added image" in chat(offer).err


def test_a_long_list_of_names_asks_for_few_files(monkeypatch):
    asked = []
    module = "mmspec_cli.terminal.attachments"
    monkeypatch.setattr(f"{module}.expand_home", lambda path: asked.append(path) or Path(path))
    monkeypatch.setattr(f"{module}._nearest", None)
    names = ",".join(f"none{number}.png" for number in range(300))
    assert take_images(names, as_text=True).text == names
    assert len(asked) < 300 * 12
    asked.clear()
    text = "word " * 10_000 + "none.png"
    assert take_images(text, as_text=True).text == text
    assert len(asked) < 300


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


CLIPBOARDS = {"pbpaste": "", "wl_paste": "WAYLAND_DISPLAY", "xclip": "DISPLAY"}


@pytest.mark.parametrize("program", CLIPBOARDS)
def test_a_path_that_was_copied_is_the_picture_of_its_file(
    here, programs, monkeypatch, red, program
):
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    if CLIPBOARDS[program]:
        monkeypatch.setenv(CLIPBOARDS[program], ":0")
    else:
        monkeypatch.setattr(sys, "platform", "darwin")
    none = "echo 'error -1700, image/png not available' >&2; exit 1"
    for text in (str(red), f"file://{here}/red.png", "hello"):
        script = f'case "$*" in *image*) {none};; *) printf %s "{text}";; esac'
        programs(osascript=none, **{program: script})
        if text != "hello":
            assert clipboard_picture() == open_picture(red)
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
    chat, run, pair, red, programs, monkeypatch
):
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    programs(wl_paste=f"cat '{red}'")
    saved = "/save talk.md", "/save talk.json", "/load talk.json", "/images"
    talk = chat("/paste", "which?", *saved, "why?")
    alone = json.loads(run("generate", red, "--prompt", "which?", *pair, "--json").out)
    assert talk.ids[0] == alone["token_ids"]
    assert [row["image"] for row in talk.records[4]["images"]] == ["clipboard"]
    assert "> [clipboard]\n" in red.with_name("talk.md").read_text()


def test_generate_reads_an_image_from_standard_input(run, refused, pair, red):
    for arguments, content, words in (
        (["-", "--prompt", "-"], b"", "the prompt or an image, not both"),
        (["-", "-", "--prompt", "x"], b"", "one image: give - once"),
        (["-", "--prompt", "x"], b"no image", "standard input: not an image"),
    ):
        refused("generate", *arguments, words=[words], stdin=content)
    asked = "--prompt", "which?", *pair, "--json"
    alone, piped = (
        run("generate", red, *asked),
        run("generate", "-", *asked, stdin=red.read_bytes()),
    )
    assert json.loads(piped.out)["token_ids"] == json.loads(alone.out)["token_ids"]
