"""A chat from a pipe, with a real pair of tiny models: each line is a question or a command."""

import json
import re
from itertools import count

import pytest

from mmspec.decoding.exact_rows import ExactRows
from mmspec.draft_length.policy import FixedDraftLength
from support.commands import Run


@pytest.fixture
def chat(run: Run, pair, monkeypatch, tmp_path):
    """`chat("line", "line", images=[...], options=[...])`."""
    monkeypatch.chdir(tmp_path)

    def talk(*lines: str, images=(), options=()):
        return run("chat", *images, *pair, *options, stdin="\n".join(lines))

    return talk


def answers(result) -> list[dict]:
    records = [json.loads(line) for line in result.out.splitlines()]
    return [record for record in records if "text" in record]


def test_each_line_is_a_question_and_the_end_leaves(chat):
    status, out, err = chat("one", "", "two")
    assert status == 0
    assert len(re.findall(r"\d+ tokens? in \d+\.\d s", err)) == 2
    assert out.endswith("\n")


def test_a_block_between_quotes_is_one_question_and_the_end_of_input_ends_it(chat):
    lines = ['"""one', "", 'three"""', '"""on one line"""', "/history", '"""four', "five"]
    result = chat(*lines, options=["--json"])
    assert len(answers(result)) == 3
    turns = json.loads(result.out.splitlines()[2])["history"]
    assert [turn["question"] for turn in turns] == ["one\n\nthree", "on one line"]


def test_a_later_turn_reads_only_what_is_new(chat, red):
    first, second = answers(chat("what is it?", "and now?", images=[red], options=["--json"]))
    fed = first["prompt_tokens"] + len(first["token_ids"])
    assert first["stats"]["cached_tokens"] == 0
    assert fed - 2 <= second["stats"]["cached_tokens"] <= fed
    assert second["prompt_tokens"] > fed


@pytest.mark.parametrize(
    ("lines", "images"),
    [
        (["/image red.png", "which?"], []),
        (["which? red.png"], []),
        (["red.png", "which?"], []),
        (["which?"], ["red.png"]),
    ],
)
def test_four_ways_to_show_an_image(chat, run, pair, red, lines, images):
    result = chat(*lines, images=images, options=["--json"])
    alone = json.loads(run("generate", red, "--prompt", "which?", *pair, "--json").out)
    assert [answer["token_ids"] for answer in answers(result)] == [alone["token_ids"]]
    assert "Added image" in result.err
    assert "red.png" in result.err


def test_a_bad_image_loses_neither_conversation_nor_staged_images(chat, red):
    (red.parent / "bad.png").write_bytes(b"\x89PNG\r\n")
    result = chat(
        "/image red.png",
        *("/image bad.png", "/image none.png", "what is in ./none.png?", "bad.png"),
        "which?",
        options=["--json"],
    )
    clean = answers(chat("/image red.png", "which?", options=["--json"]))
    assert [answer["token_ids"] for answer in answers(result)] == [clean[0]["token_ids"]]
    errors = [line for line in result.err.splitlines() if "Added" not in line]
    assert [line.split(":")[0] for line in errors] == ["bad.png", "none.png", "none.png", "bad.png"]


def test_a_misspelt_file_is_said_and_the_question_sent_when_it_comes_again(chat, red):
    lines = ["rde.png which?"] * 3
    seeing, blind = (chat(*first, *lines, options=["--json"]) for first in (["red.png"], []))
    assert seeing.err.count("rde.png: there is no such file (nearest: red.png)") == 2
    (answer,), (other,) = answers(seeing), answers(blind)
    assert answer["prompt_tokens"] > other["prompt_tokens"]  # the staged image was kept for it


def test_too_much_for_the_context_is_said_before_and_loses_nothing(chat, red):
    result = chat(
        "/image red.png", "long " * 9000, "which?", options=["--json", "--max-new-tokens", "12"]
    )
    clean = answers(chat("/image red.png", "which?", options=["--json"]))
    assert "positions" in result.err
    assert result.err.rstrip().endswith("--max-new-tokens; /reset starts again")
    assert [answer["token_ids"] for answer in answers(result)] == [clean[0]["token_ids"]]


def test_undo_and_retry_equal_never_having_asked(chat):
    replies = answers(chat("one", "two", "/undo", "/retry", "three", options=["--json"]))
    clean = answers(chat("one", "three", options=["--json"]))
    assert replies[2]["token_ids"] == replies[0]["token_ids"]
    assert replies[3]["token_ids"] == clean[1]["token_ids"]


def test_retry_draws_anew_where_tokens_are_drawn(chat):
    replies = answers(chat("one", "/retry", options=["--json", "--temperature", "1"]))
    assert replies[0]["token_ids"] != replies[1]["token_ids"]


def test_reset_forgets_and_system_stays(chat):
    replies = answers(chat("/system Be brief.", "one", "/reset", "one", options=["--json"]))
    plain = answers(chat("one", options=["--json"]))
    assert replies[0]["prompt_tokens"] == replies[1]["prompt_tokens"] > plain[0]["prompt_tokens"]


def test_plain_decoding_says_the_same(chat):
    on, off = answers(chat("one", "/spec off", "/retry", options=["--json"]))
    assert on["drafting"] == "T"
    assert off["drafting"] == "none"
    assert on["token_ids"] == off["token_ids"]


def test_stats_say_what_a_chosen_length_came_to(chat):
    out = chat("one", "/stats", options=["--gamma", "auto"]).out
    assert re.search(r"gamma +auto, \d\.\d drafted a round", out)
    assert re.search(r"gamma +3\n", chat("one", "/stats", options=["--gamma", "3"]).out)
    assert "gamma" not in chat("one", "/stats", options=["--drafting", "none"]).out


def test_stats_say_whether_decoding_is_exact(chat, monkeypatch, tmp_path):
    monkeypatch.setenv("MMSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mmspec.exactness.finding.find_exact_rows", lambda _: ExactRows(8, 8))
    exact = ["--exact", "on"]
    assert re.search(r"exact +on: forwards of 8 rows", chat("/stats", options=exact).out)
    assert re.search(r"exact +auto: off; `mmspec doctor` says why", chat("/stats").out)
    [record] = map(json.loads, chat("/stats", options=[*exact, "--json"]).out.splitlines())
    assert (record["exact"], record["exact_mode"]) == (True, "on")
    assert record["exact_rows"] == {"multiple": 8, "most": 8}


def test_a_file_whose_image_is_away_is_overwritten_only_when_said_twice(chat, red):
    chat("which? red.png", "/save talk.json")
    red.unlink()
    assert "talk.json exists: overwrite it?" in chat("/load talk.json", "/save talk.json").err


@pytest.mark.parametrize("line", ["/reset", "/load empty.json"])
def test_a_conversation_that_another_replaced_can_be_brought_back(chat, line):
    chat("/save empty.json")
    replaced = ["one", line, "two", "/undo", "/undo", "three"]
    result = chat(*replaced, options=["--json"])
    clean = answers(chat("one", "three", options=["--json"]))
    assert answers(result)[2]["token_ids"] == clean[1]["token_ids"]
    notices = [json.loads(line).get("notice") for line in result.out.splitlines()]
    assert notices[1].endswith("; /undo brings the conversation back")
    assert notices[4] == "brought back the conversation before"


def test_undo_after_a_load_into_an_empty_chat_takes_back_a_turn(chat):
    chat("one", "two", "/save talk.json")
    replies = answers(chat("/load talk.json", "/undo", "/retry", options=["--json"]))
    clean = answers(chat("one", options=["--json"]))
    assert replies[0]["token_ids"] == clean[0]["token_ids"]


@pytest.mark.parametrize("token", [-1, 10**6, 10**30])
def test_a_conversation_of_other_tokens_is_refused_and_nothing_lost(chat, tmp_path, token):
    chat("one", "/save talk.json")
    saved = json.loads((tmp_path / "talk.json").read_text())
    saved["turns"][0]["answer"].append(token)
    (tmp_path / "talk.json").write_text(json.dumps(saved))
    result = chat("one", "/load talk.json", "two", options=["--json"])
    clean = answers(chat("one", "two", options=["--json"]))
    words = f"answer 1 holds {token}, which is no token", f"is {token}, but must be an integer"
    assert any(each in result.err for each in words)
    assert answers(result)[1]["token_ids"] == clean[1]["token_ids"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/imgae red.png", "nearest: /image"),
        ("/image", "/image PATH"),
        ("/spec maybe", "on or off"),
        ("/undo", "no turn yet"),
        ("/retry", "no turn yet"),
        ("/load none.json", "none.json cannot be read"),
        ("/load red.png", "red.png cannot be read"),
        ("/save red.png", "red.png exists"),
        ("/save no/where.json", "no/where.json cannot be written"),
        ("/quit now", "/quit takes nothing after it: leave 'now' out"),
        ("/spec", "/spec needs on|off: /spec on|off"),
    ],
)
def test_a_command_that_fails_says_why_and_the_chat_goes_on(chat, red, line, words):
    before = red.read_bytes()
    result = chat(line, "one")
    assert result.status == 0
    assert words in result.err.splitlines()[0]
    assert " s" in result.err.splitlines()[-1]
    assert red.read_bytes() == before


def test_commands_that_only_show(chat, red):
    out = chat("/help", "/images", "/image red.png", "/images", "one", "/images", "/stats").out
    for words in ("/accepted on|off", "no images yet", "next question", "question 1", "drafted"):
        assert words in out


def test_every_line_is_json_where_that_was_asked_for(chat, red):
    commands = [
        *("/help", "/images", "one", "/stats", "/image red.png", "/images", "/spec off"),
        *("/accepted on", "/save talk.json", "/undo", "/load talk.json", "/system Brief."),
        *("/reset", "/undo", "/retry", "/nonsense", "/quit"),
    ]
    result = chat(*commands, options=["--json"])
    records = [json.loads(line) for line in result.out.splitlines()]
    assert [{*record} & {"help", "notice", "stats", "images", "text"} for record in records] == [
        *({"help"}, {"notice"}, {"text", "stats"}, {"stats"}, {"images"}),
        *([{"notice"}] * 8),
        {"text", "stats"},
    ]
    assert records[3]["stats"] == records[2]["stats"]
    assert records[4]["images"][0]["with"] == "next question"
    assert records[0]["help"]["/quit"] == "Leave."


@pytest.mark.parametrize("word", ["exit", "Quit"])
def test_what_people_type_to_leave_leaves(chat, word):
    assert chat(word, "one") == (0, "", "")
    assert len(answers(chat(f"{word} strategy", options=["--json"]))) == 1


def test_accepted_tokens_can_be_marked_while_talking(chat):
    out = chat("/accepted on", "one", "/accepted off", "/retry", options=["--gamma", "3"]).out
    assert out.count("‹") > 0  # noqa: RUF001
    assert "‹" not in out.splitlines()[-1]  # noqa: RUF001


def test_a_note_that_differs_in_its_numbers_alone_is_shown_once(chat, monkeypatch):
    from mmspec.chat import chat as module

    turns = count(3)
    fitting = module.fitting

    def noted(*arguments):
        drafting, _ = fitting(*arguments)
        return drafting, [f"view M takes {next(turns)}.5 positions", "another"]

    monkeypatch.setattr(module, "fitting", noted)
    err = chat("one", "two", "three").err
    assert err.count("view M takes 3.5 positions\nanother\n") == 1
    assert err.count("view M") == err.count("another") == 1


def test_the_line_under_an_answer_has_all_figures_where_that_is_asked_for(chat):
    assert "tokens/round" in chat("one", options=["--details"]).err
    assert "tokens/round" not in chat("one").err


def test_why_nothing_was_drafted_is_among_the_details(chat, monkeypatch):
    monkeypatch.setattr(FixedDraftLength, "plain_reason", lambda _: "drafting would cost 3 rounds")
    fixed = ["--gamma", "3"]
    assert "cost 3 rounds" in chat("one", options=[*fixed, "--details"]).err
    assert "cost 3 rounds" not in chat("one", options=fixed).err
