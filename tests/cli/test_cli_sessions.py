"""Conversations that are kept: whose they are, how they go on, and chats that keep nothing."""

import json
import stat
from contextlib import ExitStack, nullcontext
from unittest.mock import Mock

import pytest
from PIL import Image

from mmspec.prompt.conversation import Conversation
from mmspec.prompt.images import picture_from
from mmspec_cli.chat import read_pipe
from mmspec_cli.chat_commands import files
from mmspec_cli.terminal import conversation_store
from mmspec_terminal.render import Screen


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    """The folder of what is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "mmspec" / "conversations"


@pytest.fixture(autouse=True)
def _typed(monkeypatch):
    """Lines of a pipe pass for what a person types."""
    monkeypatch.setattr("mmspec_cli.chat.is_interactive", lambda: True)
    monkeypatch.setattr("mmspec_cli.chat._line_editor", lambda private: read_pipe)
    monkeypatch.setattr("mmspec_cli.terminal.dialogue.hide_typing", nullcontext)


def questions(file):
    turns = json.loads(file.read_text())["turns"]
    return [turn["question"][-1]["text"] for turn in turns]


@pytest.fixture
def before(monkeypatch):
    """`before({line: act})`: what happens once a line is typed, before the chat answers it."""

    def register(acts):
        def read(prompt: str) -> str:
            line = read_pipe(prompt)
            acts.get(line, lambda: None)()
            return line

        monkeypatch.setattr("mmspec_cli.chat._line_editor", lambda private: read)

    return register


def test_a_conversation_is_kept_for_its_owner_alone_and_without_what_is_undone(chat, state):
    chat("one", "/undo")
    assert not list(state.iterdir())
    chat("one", "two", "/undo", "/undo", "three", "four", "/undo")
    (file,) = state.iterdir()
    assert questions(file) == ["three"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_an_answer_that_ends_with_the_terminal_is_kept(chat, state, monkeypatch):
    def ended(*_):
        raise SystemExit(129)

    monkeypatch.setattr(Screen, "piece", ended)
    with pytest.raises(SystemExit):
        chat("one", as_json=False)
    (file,) = state.iterdir()
    assert questions(file) == ["one"]
    assert json.loads(file.read_text())["turns"][0]["answer_text"]


def test_the_last_conversation_goes_on_in_its_file_with_its_model(chat, state, pair, monkeypatch):
    chat("which? red.png")
    whole = chat("which? red.png", "and?", more=["--private"])
    device = pair[pair.index("--draft") :]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(state.parent))
    config = state.parent / "mmspec" / "config.toml"
    config.parent.mkdir()
    config.write_text("model = 'mini'\n[chat]\nsystem = 'x'\n")
    talk = chat("and?", more=["--resume"], models=device)
    assert talk.notices[0].startswith("went on from the conversation of 20")
    assert talk.notices[0].endswith(": 1 question")
    assert talk.ids == whole.ids[1:]
    (file,) = state.iterdir()
    assert questions(file) == ["which?", "and?"]
    talk = chat("/system", more=["--resume", "--system", "Be brief."], models=device)
    assert talk.notices[-1] == "system text: Be brief."
    config.write_text("model = 'mini'\ndraft = 'mini-eagle3'\n")
    talk = chat("/system", more=["--resume"], models=device[2:])
    assert talk.notices[0].startswith("went on"), "the draft of the file is for its model"


def test_a_conversation_whose_model_is_away_names_it(chat, state):
    chat("one")
    (file,) = state.iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model": "away"}))
    talk = chat(more=["--resume"], models=[])
    assert talk.status == 2
    assert talk.err.startswith("mmspec: --resume: the conversation of 20")
    assert " had away: unknown model 'away'" in talk.err


def test_a_private_chat_keeps_nothing_and_a_pipe_neither(chat, state, run, pair, monkeypatch):
    chat("one", more=["--private"])
    monkeypatch.setattr("mmspec_cli.chat.is_interactive", lambda: False)
    run("chat", *pair, stdin="one")
    assert not state.exists()


def test_lookup_remembers_what_is_kept_until_it_is_cleared(chat, state, run):
    lookup = ["--drafting", "lookup", "--gamma", "4"]
    other = state.parent / "lookup" / "other.ids"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"damaged")
    talk, again = chat("one", "two", more=lookup), chat("one", more=lookup)
    assert again.ids == talk.ids[:1]
    rounds = [each.answers[0]["stats"]["rounds"] for each in (talk, again)]
    assert rounds[1] < rounds[0]
    (file,) = {*other.parent.iterdir()} - {other}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = json.loads(run("memory", "--json").out)["files"]
    assert listed == {str(each): each.stat().st_size for each in (file, other)}
    kept = file.read_bytes()
    chat("three", more=[*lookup, "--private"])
    assert file.read_bytes() == kept
    file.write_bytes(b"damaged")
    talk = chat("one", more=lookup)
    assert (talk.status, talk.err.count(f"{file} holds no memory")) == (0, 1)
    assert "2 files" in run("memory", "--clear").out
    assert "0 files, 0 bytes" in run("memory").out


def test_an_earlier_conversation_is_chosen_by_its_number(chat, state):
    for question in ("one", "two"):
        chat(question)
    listed = chat("/sessions", more=["--private"])
    rows = listed.records[0]["sessions"]
    assert [(row["number"], row["first question"]) for row in rows] == [("1", "two"), ("2", "one")]
    talk = chat("/sessions 2", "more", "/sessions 3", "/sessions x")
    assert "/sessions 3: give a number from 1 to 2" in talk.err
    assert "/sessions x: give a whole number" in talk.err
    assert sorted(map(questions, state.iterdir())) == [["one", "more"], ["two"]]


def test_enter_asks_again_what_was_repeated_to_be_sent_as_text(chat, narrow):
    lines = ["/max-new-tokens 12", "one", "long " * 16, "/max-new-tokens 7000"]
    talk = chat(*lines, *["two ./none.png"] * 2, "", "/quit", models=narrow)
    assert "Enter forgets the first" in talk.err
    assert (talk.err.count("there is no such file"), len(talk.ids)) == (1, 3)


@pytest.mark.parametrize("line", ["/reset", "/drop 1", "/undo", "/max-new-tokens 30"])
def test_enter_forgets_nothing_once_the_questions_that_it_named_may_be_others(chat, narrow, line):
    lines = ["/max-new-tokens 12", "one", "long " * 16, "/max-new-tokens 7000", "two " * 4]
    talk = chat(*lines, line, "", "/drop", models=narrow)
    assert "Enter forgets the first" in talk.err
    assert len(talk.notices) == 4


def test_going_on_reads_the_last_conversation_alone(chat, state, monkeypatch):
    for question in ("one", "two"):
        chat(question)
    describe = Mock(wraps=conversation_store._describe)
    monkeypatch.setattr(conversation_store, "_describe", describe)
    assert chat(more=["--resume"]).notices[0].startswith("went on from")
    assert describe.call_count == 1


def test_a_pasted_image_is_encoded_once_for_all_answers(chat, state, monkeypatch):
    picture, save, saved = picture_from(Image.new("RGB", (9, 7), "teal")), Image.Image.save, []
    monkeypatch.setattr(files, "clipboard_picture", lambda _: picture)
    monkeypatch.setattr(Image.Image, "save", lambda *args: saved.append(args) or save(*args))
    chat("/paste", "which?", "and?")
    assert len(saved) == 1
    (file,) = state.iterdir()
    assert Conversation.from_json(file.read_text()).pictures == (picture,)


def test_a_conversation_whose_image_is_away_stays_in_its_file(chat, state, red):
    chat("which? red.png")
    (first,) = state.iterdir()
    before = first.read_text()
    away = red.rename(red.with_name("away.png"))
    talk = chat("and?", more=["--resume"])
    assert "without an image: " in talk.err
    assert talk.notices[0].endswith(": 1 question, without 1 image")
    assert first.read_text() == before
    (second,) = {*state.iterdir()} - {first}
    assert questions(second) == ["which?", "and?"]
    away.rename(red)
    chat("/sessions 2", "why?")
    assert questions(first) == ["which?", "why?"]


@pytest.mark.parametrize("line", ["three", "/undo"])
def test_two_chats_that_go_on_with_one_conversation_lose_nothing(chat, state, before, line):
    chat("one")
    (file,) = state.iterdir()

    def keep_another_answer():
        other = file.with_suffix(".new")
        other.write_text(file.read_text().replace('"one"', '"other"'))
        other.replace(file)

    before({line: keep_another_answer})
    talk = chat("two", line, "four", more=["--resume"])
    assert talk.err.count("another chat goes on with this conversation too") == 1
    assert questions(file) == ["other", "two"]
    (own,) = {*state.iterdir()} - {file}
    assert questions(own) == ["one", *(["two", line] if line == "three" else []), "four"]


def test_a_conversation_whose_file_is_deleted_is_kept_in_it_again(chat, state, before):
    before({"two": lambda: next(state.iterdir()).unlink()})
    assert "another chat" not in chat("one", "two").err
    assert [questions(file) for file in state.iterdir()] == [["one", "two"]]


@pytest.mark.parametrize("line", ["two", "/undo"])
def test_a_disk_that_turns_read_only_ends_no_chat(chat, disk, monkeypatch, before, line):
    if not disk.is_tmpfs:
        pytest.skip("a folder that only lost its permissions gets them back")
    monkeypatch.setenv("XDG_STATE_HOME", str(disk.folder))
    with ExitStack() as stack:
        before({line: lambda: stack.enter_context(disk.read_only()), "three": stack.close})
        talk = chat("one", line, "three")
    assert (talk.status, len(talk.ids)) == (0, 2 + (line == "two"))
    assert talk.err.count("is no longer kept: ") == 1
    assert "Read-only file system" in talk.err
    assert talk.err.count("is kept again") == 1
    (file,) = (disk.folder / "mmspec" / "conversations").iterdir()
    assert questions(file)[-1] == "three"
