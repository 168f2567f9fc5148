"""Commands of a chat that manage its images, files, context and options."""

import json
import re

from PIL import Image

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
    both = ["/image red.png 'blue one.png'"]
    alone = chat("/image red.png", "which?").ids
    for line in ("/unstage", "/unstage 'blue one.png'", "/unstage blue one.png"):
        result = chat(*both, line, "which?")
        assert result.notices == ["took back blue one.png"]
        assert result.ids == alone
    result = chat(*both, "/unstage none.png", "/unstage", "/unstage", "/unstage", "which?")
    assert "none.png is not waiting: red.png, blue one.png" in result.err
    assert "no image is waiting" in result.err
    assert result.ids == chat("which?").ids


def test_the_history_is_every_question_with_its_images_and_answer(chat):
    result = chat("/history", "which? red.png", "and\tnow?", "/history")
    assert result.notices == ["no question yet"]
    turns = result.records[-1]["history"]
    assert [(turn["question"], turn["images"]) for turn in turns] == [
        ("which?", ["red.png"]),
        ("and\tnow?", []),
    ]
    answers = [answer["text"] for answer in result.answers]
    assert [turn["answer"] for turn in turns] == answers
    shown = chat("which? red.png", "/history", as_json=False).out
    assert f"1> [red.png] which?\n{answers[0]}\n" in shown


def test_a_file_is_overwritten_only_when_it_is_said_twice(chat, red):
    file = red.parent / "talk.json"
    file.write_text("mine")
    lines = ["one", "/save talk.json", "/save other.json", "/save talk.json"]
    result = chat(*lines)
    assert result.err.count("talk.json exists: overwrite it? /save talk.json again does") == 2
    assert file.read_text() == "mine"
    assert chat("one", "/save talk.json", "/save talk.json").notices == ["saved to talk.json"]
    assert len(json.loads(file.read_text())["turns"]) == 1


def test_a_full_context_offers_what_fits_and_the_offers_work(chat):
    long, more = "long " * 150, "long " * 30
    talk = ["/max-new-tokens 12", long, "/max-new-tokens 7000", more]
    refused = chat(*talk)
    assert len(refused.ids) == 1, refused.err
    assert refused.notices[1].endswith("tokens: more do not fit beside this conversation")
    assert len(chat(*talk[:3], "two").ids) == 2
    offers = re.findall(r"(/drop 1|/max-new-tokens \d+|/reset) [fs]", refused.err)
    assert [offer.split()[0] for offer in offers] == ["/max-new-tokens", "/drop", "/reset"], (
        refused.err
    )
    for offer in offers:
        assert len(chat(*talk, offer, more).ids) == 2


def test_the_temperature_can_be_changed_and_draws_as_the_option_does(chat):
    result = chat("/temperature", "one", "/temperature 1", "/reset", "one")
    assert result.notices[:2] == ["temperature 0 (the likeliest token)", "temperature 1"]
    drawn = chat("one", more=["--temperature", "1"]).ids
    assert result.ids[1] == drawn[0] != result.ids[0]


def test_the_drafting_can_be_changed_and_changes_no_token(chat):
    result = chat("one", "/drafting lookup", "/retry", "/drafting auto", "/drafting")
    answers = result.answers
    assert [answer["drafting"] for answer in answers] == ["T", "lookup"]
    assert answers[0]["token_ids"] == answers[1]["token_ids"]
    assert result.notices[-1] == "drafting auto; the last answer: lookup"


def test_another_model_goes_on_with_the_conversation(chat, pair_paths, llama_path):
    target, draft = map(str, pair_paths)
    result = chat(
        "which? red.png", "/model", f"/model {draft}", "/history", "and?", "/undo", "/undo"
    )
    assert result.notices[0].startswith(f"model {target}, draft {draft}, torch on cpu")
    assert result.notices[1].startswith(f"model {draft}, draft none")
    history = next(record["history"] for record in result.records if "history" in record)
    assert history[0]["images"] == ["red.png"]
    answers = result.answers
    assert [answer["model"] for answer in answers] == [target, draft]
    assert answers[1]["prompt_tokens"] > answers[0]["prompt_tokens"]


def test_a_model_that_cannot_go_on_changes_nothing(chat, llama_path):
    lines = ["which? red.png", f"/model {llama_path}", "/model no-such", "/retry"]
    result = chat(*lines)
    assert "text-only and cannot see images" in result.err
    assert "no-such" in result.err
    assert result.ids[0] == result.ids[1]
