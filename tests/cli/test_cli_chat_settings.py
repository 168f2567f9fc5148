"""A chat from a pipe whose context fills, and whose settings and models are changed."""

import re
import weakref

import pytest

from mmspec.prompt.chat_template import ChatTemplate
from mmspec_cli.chat_commands.table import COMMANDS


def test_a_full_context_offers_what_fits_and_the_offers_work(chat, narrow):
    lines = ["/max-new-tokens 12", "long " * 20, "/max-new-tokens 7000", "long " * 8]
    refused = chat(*lines, models=narrow)
    assert len(refused.ids) == 1, refused.err
    offers = re.findall(r"(/drop 1|/max-new-tokens \d+|/reset) [fs]", refused.err)
    assert [offer.split()[0] for offer in offers] == ["/max-new-tokens", "/drop", "/reset"]
    for offer in offers:
        assert len(chat(*lines, offer, lines[-1], models=narrow).ids) == 2


@pytest.mark.parametrize(("words", "makes_room"), [(37, True), (42, False)])
def test_a_question_is_offered_to_be_dropped_only_if_that_makes_room(
    chat, narrow, words, makes_room
):
    """The system text stays when all questions are forgotten."""
    lines = ["/max-new-tokens 4", "one", "long " * words]
    settings = {"models": narrow, "more": ["--system", "be kind " * 8]}
    assert ("/drop 1 f" in chat(*lines, **settings).err) == makes_room
    assert len(chat(*lines, "/drop 1", lines[-1], **settings).ids) == 1 + makes_room


def test_an_answer_ends_with_the_context_and_the_number_that_was_asked_stays(chat, narrow):
    lines = "/max-new-tokens 7000", "one red.png", "/max-new-tokens", "/reset", "two red.png"
    result = chat(*lines, models=narrow)
    assert result.notices[1] == "an answer has at most 7000 tokens"
    sizes = [answer["prompt_tokens"] + len(answer["token_ids"]) for answer in result.answers]
    assert sizes == [256, 256], result.err
    assert "the context is full" in chat(*lines[:2], models=narrow, as_json=False).err


def test_the_temperature_can_be_changed_and_draws_as_the_option_does(chat):
    result = chat("/temperature", "one", "/temperature 1", "/reset", "one")
    assert result.notices[:2] == ["temperature 0 (the likeliest token)", "temperature 1"]
    drawn = chat("one", more=["--temperature", "1"]).ids
    assert result.ids[1] == drawn[0] != result.ids[0]


def test_the_drafting_can_be_changed_and_changes_no_token(chat, pair):
    lines = ["/drafting none", "/spec on", "/drafting auto", "/drafting"]
    result = chat("one", "/drafting lookup", "/retry", *lines)
    assert "nothing is drafted in this chat: /drafting auto drafts" in result.err
    answers = result.answers
    assert [answer["drafting"] for answer in answers] == ["T+lookup", "lookup"]
    assert answers[0]["token_ids"] == answers[1]["token_ids"]
    assert result.notices[-1] == "drafting auto; the last answer: lookup"
    alone = ["--model", pair[1], "--draft", "none", "--backend", "torch"]
    result = chat("/spec on", "/drafting lookup", "/spec on", models=alone)
    assert "nothing is drafted in this chat: /drafting lookup drafts" in result.err
    assert result.notices[-1] == "speculative decoding"


def test_another_model_goes_on_with_the_conversation(chat, pair_paths, llama_path):
    target, draft = map(str, pair_paths)
    lines = "/model", f"/model {draft}", "/history", "and?", "/reset", "/model mini", "/undo"
    result = chat("which? red.png", *lines, "/history")
    assert result.notices[0].startswith(f"model {target}, draft {draft}, torch on cpu")
    assert result.notices[1].startswith(f"model {draft}, draft none")
    histories = [record["history"] for record in result.records if "history" in record]
    assert [turn[0]["images"] for turn in histories] == [["red.png"]] * 2
    assert result.notices[-1] == "brought back the conversation before"
    answers = result.answers
    assert [answer["model"] for answer in answers] == [target, draft]
    assert answers[1]["prompt_tokens"] > answers[0]["prompt_tokens"]


def test_a_model_without_a_setting_for_thinking_goes_on_without_it(
    chat, pair_paths, llama_path, monkeypatch
):
    """The note comes with a model that goes on alone."""
    draft, own = str(pair_paths[1]), str(pair_paths[0])
    reads = property(lambda template: template.file.startswith(own))
    monkeypatch.setattr(ChatTemplate, "reads_thinking", reads)
    result = chat("one", f"/model {draft}", "two", more=["--thinking", "off"])
    assert f"{draft} has no setting for --thinking: it is left out" in result.err
    assert len(result.ids) == 2, result.err
    for line in ("/image red.png", "which? red.png"):
        result = chat(line, f"/model {llama_path}", more=["--thinking", "off"])
        assert "text-only and cannot see images" in result.err
        assert "left out" not in result.err


def test_a_model_that_cannot_go_on_changes_nothing(chat, llama_path):
    lines = ["which? red.png", f"/model {llama_path}", "/model no-such", "/retry"]
    result = chat(*lines)
    assert "text-only and cannot see images" in result.err
    assert "no-such" in result.err
    assert result.ids[0] == result.ids[1]
    assert chat("/image red.png", lines[1], "which?").ids == result.ids[:1]


def test_another_model_frees_the_first(chat, pair_paths, monkeypatch):
    models, freed = [], []

    def look(dialogue):
        freed.append([model() is None for model in models])
        models.append(weakref.ref(dialogue.chat.models.target.model))

    monkeypatch.setitem(COMMANDS, "/help", ("", look))
    chat("one red.png", "/help", f"/model {pair_paths[1]}", "/help")
    assert freed == [[], [True]]
