"""Paths among the words of a message."""

from pathlib import Path

import pytest

from mmspec.errors import ImageError
from mmspec_cli.terminal.attachments import take_images


@pytest.fixture(autouse=True)
def here(red: Path, blue: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(red.parent)
    monkeypatch.setenv("HOME", str(red.parent))
    return red.parent


@pytest.mark.parametrize(
    ("message", "text", "names"),
    [
        ("what is red.png?", "what is?", ["red.png"]),
        ("red.png what is this", "what is this", ["red.png"]),
        ("{here}/red.png", "", ["red.png"]),
        (
            "compare red.png and 'blue one.png', please",
            "compare and, please",
            ["red.png", "blue one.png"],
        ),
        ('"blue one.png" colour?', "colour?", ["blue one.png"]),
        (r"colour of blue\ one.png?", "colour of?", ["blue one.png"]),
        ("~/red.png: what?", ": what?", ["red.png"]),
        ("file://{here}/blue%20one.png what?", "what?", ["blue one.png"]),
        ("look at ./red.png\nwhat is it?", "look at\nwhat is it?", ["red.png"]),
        ("red.png red.png twice", "twice", ["red.png", "red.png"]),
    ],
)
def test_paths_are_taken_out(here, message, text, names):
    said, pictures = take_images(message.format(here=here))
    assert said == text
    assert [Path(picture.name).name for picture in pictures] == names


@pytest.mark.parametrize(
    "message",
    [
        "what's in it? don't guess",
        "see https://example.org/cat.png",
        "notes.txt and README",
        "<image> is text   with  its own   gaps",
        "an 'odd quote and \\ backslash",
        "~nobody.png",
        "all *.png and .jpg files",
        "x" * 5000 + ".png",
    ],
)
def test_other_words_stay_as_they_are(message, here):
    (here / "notes.txt").write_text("x")
    assert take_images(message) == (message, [])


@pytest.mark.parametrize("name", ["{here}/none.png", "~/none.png", "./none.jpg", "bad.png"])
def test_a_path_that_cannot_be_opened_is_named(here, name):
    (here / "bad.png").write_bytes(b"\x89PNG broken")
    with pytest.raises(ImageError, match=name.rpartition("/")[2]):
        take_images(f"what is {name.format(here=here)}?")


@pytest.mark.parametrize(
    ("message", "word", "nearest"),
    [
        ("rde.png what is this?", "rde.png", "red.png"),
        ("what is in none.jpg?", "none.jpg", ""),
        ("'bleu one.png' colour?", "bleu one.png", "blue one.png"),
        ("red.png and rde.png", "rde.png", "red.png"),
    ],
)
def test_a_name_that_no_file_has_is_said_with_the_nearest(here, message, word, nearest):
    with pytest.raises(ImageError) as caught:
        take_images(message)
    assert str(caught.value).startswith(f"{word}: there is no such file")
    assert str(caught.value).count("nearest: ") == bool(nearest)
    assert nearest in str(caught.value)


def test_a_name_that_is_only_a_word_can_be_sent(here):
    asked = "is cat.png a better name than red.png?"
    text, pictures = take_images(asked, words=True)
    assert text == "is cat.png a better name than?"
    assert [picture.name for picture in pictures] == ["red.png"]
    with pytest.raises(ImageError, match="none"):
        take_images("./none.png", words=True)
