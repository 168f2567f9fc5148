"""One question, one answer, with a real pair of tiny models; clips wherever images go."""

import json
import sys
from pathlib import Path

import pytest

from support.commands import Run
from support.films import film

FIELDS = {
    *("text", "token_ids", "prompt_tokens", "finish_reason", "model", "draft", "backend"),
    *("device", "dtype", "quantize", "drafting", "weights", "adaptive", "tree", "gamma"),
    "stats",
}
STATS = {
    *("rounds", "drafted", "depth", "accepted", "draft_length", "block_efficiency"),
    *("acceptance_rate", "tokens_per_second", "seconds", "peak_memory_bytes"),
}
SECONDS = ["load", "vision", "caption", "prefill", "draft", "verify", "decode", "total"]


def report_of(run: Run, *arguments):
    status, out, err = run("generate", "--prompt", "What?", *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_json_has_every_field_of_the_contract(run, pair, red):
    report = report_of(run, red, "--drafting", "MTC", *pair)
    assert report.keys() >= FIELDS
    assert report["stats"].keys() >= STATS
    assert list(report["stats"]["seconds"]) == SECONDS
    assert (report["drafting"], report["backend"], report["dtype"]) == ("MTC", "torch", "float32")
    assert report["weights"] == pytest.approx([1 / 3] * 3)
    assert (report["exact"], report["exact_mode"], report["exact_rows"]) == (False, "auto", None)
    stats = report["stats"]
    assert stats["block_efficiency"] * stats["rounds"] == len(report["token_ids"])
    assert stats["acceptance_rate"] * stats["drafted"] == stats["accepted"]
    assert stats["tokens_per_second"] * stats["seconds"]["decode"] == pytest.approx(
        len(report["token_ids"])
    )


def test_trees_are_reported_and_change_no_token(run, pair, red):
    asked = (red, *pair, "--drafting", "MT")
    chain = report_of(run, *asked)
    tree = ("--tree", "dynamic", "--tree-width", "3", "--tree-nodes", "8", "--gamma", "4")
    report = report_of(run, *asked, *tree)
    assert (chain["tree"], chain["stats"]["depth"]) == ("auto", chain["stats"]["drafted"])
    assert report["tree"] == {"branching": [], "width": 3, "nodes": 8}
    assert report["token_ids"] == chain["token_ids"]
    stats = report["stats"]
    assert stats["depth"] < stats["drafted"]
    assert stats["acceptance_rate"] * stats["depth"] == pytest.approx(stats["accepted"])
    static = report_of(run, *asked, "--tree", "3,2")
    assert (static["tree"]["branching"], static["token_ids"]) == ([3, 2], chain["token_ids"])


def test_text_goes_to_stdout_and_the_footer_to_stderr(run, pair, red):
    expected = report_of(run, red, *pair)
    status, out, err = run("generate", red, "--prompt", "What?", *pair, "--details")
    assert (status, out) == (0, expected["text"] + "\n")
    assert f"prompt 0 cached + {expected['prompt_tokens']} new" in err
    assert "cut at 12 tokens; --max-new-tokens allows longer answers" in err


@pytest.mark.parametrize(
    ("name", "images", "remarks"),
    [
        ("my red (1).png", 0, 1),
        ("my red (1).png", 1, 0),
        ("https://a.org/cat.jpg", 0, 1),
        ("gone.png", 1, 1),
        ("a.png,b.jpg", 0, 1),
    ],
)
def test_an_image_that_only_the_prompt_names_is_said_to_be_text(
    run, pair, red, name, images, remarks
):
    red = red.rename(red.with_name("my red (1).png"))
    asked = ["generate", *[red] * images, "--prompt", f"What is in {name}?", *pair]
    expected = f"{name}: the model reads the name alone; name an image before --prompt to show it"
    assert run(*asked).err.split("\n").count(expected) == remarks


def test_an_over_long_prompt_is_told_what_works_here(refused, pair):
    words = ["shorter prompt or a smaller --max-new-tokens\n"]
    refused("generate", "--prompt", "long " * 9000, *pair, words=words)


def test_a_directory_is_named_by_its_whole_path(run, llama_path, monkeypatch):
    monkeypatch.chdir(llama_path)
    err = run("generate", "--prompt", "x", "--max-new-tokens", "1", "--model", ".").err
    assert f"draft: none ({llama_path} has no card; --draft takes one)" in err


@pytest.fixture
def clip(here: Path) -> Path:
    """A film of two seconds in the current folder."""
    return film(here / "clip.mp4", 20)


def test_a_clip_is_seen_however_it_is_named(run, chat, pair, clip):
    asked = ("generate", *pair, "--json", "--prompt", "what happens?")
    seen, unseen = (json.loads(run(*asked, *clips).out)["token_ids"] for clips in ([clip], []))
    assert seen != unseen
    for lines in ([f"what happens? {clip.name}"], [f"/image {clip}", "what happens?"]):
        assert chat(*lines).ids == [seen]
    assert chat("what happens?", images=[clip]).ids == [seen]


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
