"""A chat from a pipe, with a real pair of tiny models: each line is a question or a command."""

import json
import os
import re
import signal
from itertools import count
from unittest.mock import Mock

import pytest
from PIL import Image

from mmspec.chat.loaded_model import FeatureCache, LoadedModel
from mmspec.draft_length.policy import FixedDraftLength
from mmspec_cli.terminal import dialogue
from mmspec_terminal.render import Screen


def test_four_ways_to_show_an_image(chat, run, pair, red):
    alone = json.loads(run("generate", red, "--prompt", "which?", *pair, "--json").out)
    ways = [["/image red.png", "which?"], ["which? red.png"], ["red.png", "which?"]]
    for talk in (*(chat(*lines) for lines in ways), chat("which?", images=["red.png"])):
        assert talk.ids == [alone["token_ids"]]
        assert "Added image red.png" in talk.err


REFUSED = {
    "/image bad.png": "bad.png:",
    "/image none.png": "none.png:",
    "/image *.jpg": "*.jpg matches no image",
    "what is in ./none.png?": "./none.png:",
    "bad.png": "bad.png:",
    "see './a b/*.png'": './a b/*.png: a question takes no pattern; /image "./a b/*.png" does',
    "compare ./*.png?": "./*.png: a question takes no pattern; /image ./*.png does",
    "rde.png?": "rde.png: there is no such file (nearest: red.png)",
    "see pipe.png": "pipe.png: cannot be read (it is a named pipe, not a file)",
    "long " * 9000: "prompt and",
    "caf\udce9": "'\\udce9' in the text is not UTF-8, so nothing was sent: convert it",
    "/imgae red.png": "unknown command '/imgae' (nearest: /image)",
    "/spec maybe": "unknown setting of /spec 'maybe': use on or off",
    "/undo": "there is no question yet",
    "/continue": "there is no question yet",
    "/drop 1": "/drop 1: there is no question yet",
    "/quit now": "/quit takes nothing after it: leave 'now' out",
    "/load red.png": "red.png cannot be read",
    "/load ~\0.json": "~^@.json cannot be read",
    "/load talk.md": "talk.md is Markdown, which is not read back",
    "/save no/where.json": "no/where.json: there is no folder no",
    "/save red.png": "red.png is an image's name",
    "/save " + "a" * 300: "a",
    "/load " + "a" * 300: "a",
    "/temperature -1": "/temperature -1.0: give a finite number of at least 0",
    "/temperature inf": "/temperature inf: give a finite number of at least 0",
    "/temperature x": "/temperature x: give a number",
    "/max-new-tokens 1e3": "/max-new-tokens 1e3: give a whole number",
    "/drafting MX": "unknown drafting 'MX'",
    "/model no-such": "unknown model 'no-such'",
}


def test_what_is_refused_loses_neither_conversation_nor_staged_images(chat, here):
    before = (here / "red.png").read_bytes()
    (here / "bad.png").write_bytes(b"\x89PNG\r\n")
    os.mkfifo(here / "pipe.png")
    talk = chat("/image red.png", *REFUSED, "which?")
    assert talk.ids == chat("/image red.png", "which?").ids
    said = [line for line in talk.err.splitlines() if "Added" not in line]
    for line, words in zip(said, REFUSED.values(), strict=True):
        assert line.startswith(words)
    assert talk.err.count("File name too long") == 2
    refused = [record["line"] for record in talk.records if "error" in record]
    lines = [line.strip().encode(errors="replace").decode() for line in REFUSED]
    assert (talk.status, refused) == (2, lines)
    assert (here / "red.png").read_bytes() == before


def test_lines_between_triple_quotes_are_one_question(chat):
    talk = chat('"""one', "  two", 'three"""', "/drop", "/history", '"""to the', "end")
    assert talk.notices == ["1 question so far; /drop N forgets the first N"]
    [turn] = talk.records[2]["history"]
    assert (turn["question"], len(talk.ids)) == ("one\n  two\nthree", 2)
    assert len(chat('"""/home is full', 'what now?"""', '"""help"""').ids) == 2


@pytest.mark.parametrize("line", ["/reset", "/load empty.json"])
def test_a_conversation_that_another_replaced_can_be_brought_back(chat, line):
    chat("/save empty.json")
    chat("more", "/save talk.json")
    talk = chat("one", line, "two", "/undo", "/load talk.json", "/undo", "three")
    assert talk.ids[2] == chat("one", "three").ids[1]
    for notice in (talk.notices[0], talk.notices[2]):
        assert notice.endswith("; /undo brings the conversation back")
    assert talk.notices[3] == "brought back the conversation before"


@pytest.mark.parametrize("seed", ["0", str(2**63 - 1)])
def test_retry_draws_anew_where_tokens_are_drawn(chat, seed):
    first, second = chat("one", "/retry", more=["--temperature", "1", "--seed", seed]).ids
    assert first != second


def test_a_conversation_of_other_tokens_is_refused_and_nothing_lost(chat, red):
    chat("one", "/save talk.json")
    saved = json.loads(red.with_name("talk.json").read_text())
    tokens = {-1: "answer 1 holds", 10**6: "answer 1 holds", 10**30: "but must be an integer"}
    answer = saved["turns"][0]["answer"]
    for token in tokens:
        saved["turns"][0]["answer"] = [*answer, token]
        red.with_name(f"{token}.json").write_text(json.dumps(saved))
    talk = chat("one", *(f"/load {token}.json" for token in tokens), "two")
    for line, words in zip(talk.err.splitlines(), tokens.values(), strict=True):
        assert words in line
    assert talk.ids == chat("one", "two").ids


def test_every_line_is_json_where_that_was_asked_for(chat):
    records = chat(
        *("/help", "/images", "one", "/stats", "/image red.png", "/images", "/spec off"),
        *("/accepted on", "/save talk.json", "/undo", "/load talk.json", "/system Brief."),
        *("/reset", "/undo", "/retry", "/nonsense\u2028x", "/quit"),
    ).records
    kinds = {"help", "notice", "stats", "images", "text", "error"}
    assert [{*record} & kinds for record in records] == [
        *({"help"}, {"notice"}, {"text", "stats"}, {"stats"}, {"images"}),
        *([{"notice"}] * 8),
        {"text", "stats"},
        {"error"},
    ]
    assert records[-1]["line"] == "/nonsense\u2028x"
    assert records[3]["stats"] == records[2]["stats"]
    assert records[4]["images"][0]["with"] == "next question"
    assert records[0]["help"]["/quit"] == "Leave."


def test_ctrl_c_during_an_answer_ends_a_pipe_with_one_line_about_it(chat, monkeypatch):
    said = Screen.piece

    def interrupted(screen, piece):
        said(screen, piece)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Screen, "piece", interrupted)
    talk = chat("one", "two", as_json=False, more=["--details"])
    assert (talk.status, talk.err.count("peak")) == (130, 1)
    assert talk.err.splitlines()[-1] == "mmspec: interrupted"


def test_an_interrupted_retry_says_that_the_old_answer_stays(run, pair, monkeypatch):
    shown, calls = dialogue.stream, count()

    def second_interrupted(answering, *words):
        if not next(calls):
            return shown(answering, *words)
        next(answering)
        answering.close()
        return None

    monkeypatch.setattr(dialogue, "stream", second_interrupted)
    talk = run("chat", *pair, stdin="hi\n/retry\n")
    assert (talk.status, "the answer from before stays" in talk.err) == (130, True)


@pytest.mark.parametrize(
    ("owner", "work", "is_asking"),
    [(dialogue, "take_images", False), (LoadedModel, "chunks", True)],
)
def test_an_interrupt_before_an_answer_ends_a_pipe(chat, monkeypatch, owner, work, is_asking):
    monkeypatch.setattr(owner, work, Mock(side_effect=KeyboardInterrupt))
    talk = chat("hi", "two", as_json=False)
    *_, before, last = talk.err.splitlines()
    assert (talk.status, last) == (130, "mmspec: interrupted")
    assert (before == "stopped: nothing was asked") == is_asking


def test_remarks_go_nowhere_where_stderr_is_closed(chat, monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    [record] = chat("/nonsense").records
    assert [*record] == ["error", "line"]


def test_one_line_says_that_drafts_do_not_pay(chat, monkeypatch):
    reasons = iter([None, "too dear", "too dear", None])
    monkeypatch.setattr(FixedDraftLength, "plain_reason", lambda _: next(reasons))
    err = chat("one", "two", "three", "four", as_json=False, more=["--gamma", "3"]).err
    assert err.count("drafts do not pay at the moment; /stats says why") == 1


def test_a_note_that_differs_in_a_number_alone_is_shown_once_but_for_each_name(
    chat, red, monkeypatch
):
    sizes = count(4)
    monkeypatch.setattr(FeatureCache, "note", lambda _, each: f"{each.name}: {next(sizes)} tokens")
    for number in (1, 2):
        red.with_name(f"IMG_{number}.jpg").write_bytes(red.read_bytes())
    err = chat(*["see IMG_1.jpg?", "see IMG_2.jpg?"] * 2, as_json=False).err
    assert re.findall(r"IMG_.*: (\d) tokens", err) == ["4", "5"]


def test_a_cut_answer_that_is_loaded_goes_on_and_a_complete_one_does_not(chat):
    lines = ["/max-new-tokens 3", "hi", "/save cut.json", "/max-new-tokens 99", "/reset", "hi"]
    lines += ["/save hi.json", "more", "/undo", "/continue", "/load hi.json", "/continue"]
    lines += ["/load cut.json", "/continue", "/model mini", "/continue"]
    talk = chat(*lines, models=["--model", "mini"])
    reasons = [answer["finish_reason"] for answer in talk.answers]
    assert reasons == ["length", "stop", "stop", "stop"]
    assert talk.answers[3]["text"] == talk.answers[1]["text"]
    assert talk.err.count("the last answer is complete: ask on, or /retry") == 3


def test_a_system_text_is_shown_set_and_cleared(chat):
    own = "/reset", "/system Be brief.", "/system", "one", "/reset", "/system clear"
    talk = chat("one", *own, "one")
    assert talk.notices[1:3] == ["system text: Be brief."] * 2
    assert talk.ids[0] == talk.ids[2]
    assert talk.ids[1] == chat("one", more=["--system", "Be brief."]).ids[0]
    assert talk.answers[1]["prompt_tokens"] > talk.answers[0]["prompt_tokens"]


def test_a_conversation_is_saved_as_markdown_with_links_from_its_folder(chat, here, red):
    (here / "notes").mkdir()
    files = {"talk.MD": "red.png", "notes/talk.md": "../red.png"}
    talk = chat("/image red.png", "What is\tthis?", *(f"/save {file}" for file in files))
    for file, link in files.items():
        said = f"> ![red.png]({link})\n>\n> What is\tthis?\n\n{talk.answers[0]['text']}\n"
        assert (here / file).read_text() == said
    chat(f"which? {red}", "/save notes/talk.md", "/save notes/talk.md")
    assert f"]({red})" in (here / "notes/talk.md").read_text()
    red.rename(here / "caf\udce9.png")
    chat("which? ./caf\udce9.png", "/save no text.md")
    assert (here / "no text.md").read_text().startswith("> ![caf?.png](caf%E9.png)")


TYPED = {
    "red.png 'blue one.png'": ["red.png", "blue one.png"],
    "blue one.png": ["blue one.png"],
    r"blue\ one.png red.png": ["blue one.png", "red.png"],
    "*.png": ["[x].png", "blue one.png", "red.png"],
    "r*.png red.png": ["red.png", "red.png"],
    "[x].png": ["[x].png"],
}


def test_an_image_command_takes_paths_and_patterns(chat, red):
    Image.new("RGB", (8, 8)).save(red.with_name("[x].png"))
    red.with_name("notes.txt").write_text("x")
    lines = []
    for typed, names in TYPED.items():
        lines += [f"/image {typed}", "/images", *["/unstage"] * len(names)]
    shown = [each["images"] for each in chat(*lines).records if "images" in each]
    assert [[picture["image"] for picture in images] for images in shown] == [*TYPED.values()]


def test_a_staged_image_is_taken_back_by_place_or_name(chat):
    lines = []
    for line in ("/unstage", "/unstage 'blue one.png'", "/unstage blue one.png"):
        lines += ["/image red.png 'blue one.png'", line, "which?", "/reset"]
    result = chat(*lines)
    assert result.notices[::2] == ["took back blue one.png"] * 3
    assert result.ids == chat("/image red.png", "which?").ids * 3
    gone = "/unstage none.png", "/unstage", "/unstage", "/unstage"
    result = chat("/image red.png 'blue one.png'", *gone, "which?")
    assert "none.png is not waiting: red.png, blue one.png" in result.err
    assert "no image is waiting" in result.err
    assert result.ids == chat("which?").ids


def test_the_history_is_every_question_with_its_images_and_answer(chat):
    """An empty line is no question."""
    result = chat("/history", "which? red.png", "", "and\tnow?", "/history")
    assert result.notices == ["no question yet"]
    said = [answer["text"] for answer in result.answers]
    expected = [("which?", ["red.png"], said[0]), ("and\tnow?", [], said[1])]
    turns = result.records[-1]["history"]
    assert [(each["question"], each["images"], each["answer"]) for each in turns] == expected
    shown = chat("which? red.png", "and\tnow?", "/history", as_json=False)
    assert f"1> [red.png] which?\n{said[0]}\n" in shown.out
    assert len(re.findall(r"\d+ tokens?, [\d.]+/s", shown.err)) == 2


def test_a_file_is_overwritten_only_when_it_is_said_twice(chat, red):
    file = red.with_name("talk.json")
    file.write_text("mine")
    asks = "talk.json exists: overwrite it? /save talk.json again does"
    result = chat("one", "/save talk.json", "/save other.json", "/save talk.json")
    assert (result.err.count(asks), file.read_text()) == (2, "mine")
    assert chat("one", "/save talk.json", "/save talk.json").notices == ["saved to talk.json"]
    assert len(json.loads(file.read_text())["turns"]) == 1


def test_a_save_without_a_name_writes_the_file_of_the_same_conversation_alone(chat, red):
    talk = chat("one", "/save new.json", "/reset", "/save", "/save new.json", "/undo", "/save")
    back = "brought back the conversation before"
    assert talk.notices[2:] == ["not saved yet", back, f"saved to {red.with_name('new.json')}"]
    assert "new.json exists: overwrite it?" in talk.err


def test_many_short_names_are_images_and_letters_that_are_none_end_no_chat(chat):
    talk = chat("/image " + "red.png " * 40, "/system \udce9", "/save talk.json", "/images")
    assert len(talk.records[-1]["images"]) == 40


def test_an_image_is_named_to_a_model_without_sight_when_that_is_said_twice(chat, llama_path):
    talk = chat("is red.png red?", "is red.png red?", models=["--model", str(llama_path)])
    assert (talk.err.count("text-only and cannot see images"), len(talk.ids)) == (1, 1)
