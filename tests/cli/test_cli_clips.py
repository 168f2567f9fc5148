"""Clips at the command line, as images are: arguments, commands of the chat, paths in questions."""

import json
import sys
from pathlib import Path

import pytest

from support.films import film


@pytest.fixture
def clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A film of two seconds in the current folder."""
    monkeypatch.chdir(tmp_path)
    return film(tmp_path / "clip.mp4", 20)


def texts(result):
    return [line["text"] for line in map(json.loads, result.out.splitlines()) if "text" in line]


def test_a_clip_is_answered_about_as_its_frames_are(run, pair, clip):
    """Also where it is named in a question, and drafted from every view."""
    asked = ("generate", *pair, "--json", "--prompt", "what happens?")
    seen = json.loads(run(*asked, clip).out)
    frames = json.loads(run(*asked).out)
    assert seen["text"] != frames["text"]
    for drafting in ("MTCP", "lookup", "none"):
        assert json.loads(run(*asked, clip, "--drafting", drafting).out)["text"] == seen["text"]
    for lines in (f"what happens? {clip.name}\n", f"/image {clip}\nwhat happens?\n"):
        assert texts(run("chat", *pair, "--json", stdin=lines)) == [seen["text"]]
    assert texts(run("chat", *pair, "--json", clip, stdin="what happens?\n")) == [seen["text"]]


def test_clips_go_through_the_commands_of_the_chat(run, pair, clip, tmp_path):
    lines = [
        "/image clip.mp4",
        "/unstage clip.mp4",
        "/image *.mp4",
        "what happens?",
        "and then?",
        "/undo",
        "and then?",
        "/save talk.json",
        "/load talk.json",
        "/retry",
    ]
    result = run("chat", *pair, "--json", stdin="\n".join(lines))
    answers = texts(result)
    assert len(answers) == 4
    assert answers[1] == answers[2] == answers[3]
    assert "took back clip.mp4" in result.out
    saved = json.loads((tmp_path / "talk.json").read_text())
    assert saved["turns"][0]["question"][0]["clip"] == str(clip)
    undone = run("chat", *pair, "--json", clip, clip, stdin="what happens?\n/undo\n").out
    assert "and with them 2 clips" in undone
    clip.unlink()
    gone = run("chat", *pair, stdin="/load talk.json\n")
    assert "without an image" in gone.err
    assert "No such file" in gone.err


def test_clips_that_cannot_be_seen_are_named(run, pair, clip, monkeypatch):
    (clip.parent / "text.mp4").write_text("hello")
    for command in (("generate", "--prompt", "x"), ("chat",)):
        result = run(*command, *pair, "text.mp4")
        assert result.status == 2
        assert "text.mp4: damaged or unsupported clip" in result.err
        assert "Traceback" not in result.err
    result = run("chat", *pair, stdin="what is in clp.mp4?\n")
    assert "clp.mp4: there is no such file (nearest: clip.mp4)" in result.err
    monkeypatch.setitem(sys.modules, "av", None)
    assert 'pip install "mmspec[video]"' in run("generate", *pair, clip, "--prompt", "x").err
