"""Clips on every backend: as several images for LLaVA, as transformers shows them for Qwen."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.contract import Segment
from mmspec.decoding.sampling import GREEDY
from mmspec.prompt.film import open_clip
from mmspec.prompt.images import picture_from
from support.conformance_cases import in_turn, prompt_of, replies
from support.exactness_cases import cases, chains, check_same_bits
from support.factory_qwen import QWENS
from support.films import drawing, film
from support.sequence_helpers import continue_from

BUDGET = 9
SHORT = Options(drafting="none", max_new_tokens=BUDGET)
DRAFTINGS = ["none", "lookup", "MT", "P"]


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """A clip of four frames, one of six, and one of five that lasts a minute and has few pixels."""
    folder = tmp_path_factory.mktemp("films")
    short = open_clip(film(folder / "a.mkv", 20, size=(48, 32)))
    long = open_clip(film(folder / "b.mkv", 30, size=(40, 56)))
    slow = open_clip(film(folder / "c.mkv", 60, rate=1, size=(24, 16)), max_frames=5)
    return short, long, slow


@pytest.mark.parametrize(("backend", "drafting"), in_turn(DRAFTINGS), indirect=["backend"])
def test_a_clip_is_its_frames_as_images(engine, films, drafting):
    """For LLaVA; two turns, the second after undo, with a clip and an image in each."""
    clip, _, _ = films
    options = Options(drafting=drafting, gamma=3, max_new_tokens=BUDGET)
    said = []
    for shown in ([clip], list(clip.frames)):
        chat = engine.chat(options)
        first = chat.reply("What is it?", shown)
        chat.reply("Is it?", [clip.frames[2]])
        chat.conversation.undo()
        said.append([first.token_ids, chat.reply("And now?", [*shown, clip.frames[1]]).token_ids])
        assert any(round_.drafted for round_ in first.rounds) == (drafting != "none")
    assert said[0] == said[1]
    plain = engine.chat(Options(drafting="none", max_new_tokens=BUDGET))
    assert plain.reply("What is it?", clip).token_ids == said[0][0]


def test_the_same_frames_are_shown_again_if_their_number_is_named(engine, tmp_path):
    """After undo, as after /load; by itself LLaVA is shown fewer."""
    path = film(tmp_path / "a.mkv", 200, size=(24, 16))
    free, named = open_clip(path), open_clip(path, max_frames=40)
    chat, cold = engine.chat(SHORT), engine.chat(SHORT)
    fewer = chat.reply("What is it?", free).statistics.prompt_tokens
    chat.conversation.undo()
    warm, expected = (one.reply("What is it?", named) for one in (chat, cold))
    assert fewer < expected.statistics.prompt_tokens == warm.statistics.prompt_tokens
    assert warm.token_ids == expected.token_ids


def assert_generates(chat, answer, oracle, question):
    """An answer is transformers' own."""
    turns = chat.conversation.turns[:question]
    clips = [clip for turn in turns for clip in turn.clips]
    chunks = prompt_of(chat, question)
    assert answer.token_ids == oracle.generated(chunks, BUDGET, clips)


TURNS = [(backend, *case) for backend, case in in_turn(product(DRAFTINGS, QWENS))]


@pytest.mark.parametrize(("backend", "drafting", "kind"), TURNS, indirect=["backend", "kind"])
def test_qwen_says_what_generate_says_about_clips(qwen, oracle, films, drafting):
    """Several clips and images in a turn, a second turn, undo, another clip in the same place."""
    short, long, _ = films
    image = picture_from(drawing(50, (33, 47)))
    chat = qwen.chat(Options(drafting=drafting, gamma=3, max_new_tokens=BUDGET))
    answer = chat.reply("What is it?", short)
    if drafting != "lookup":  # which may have nothing to propose
        assert any(round_.drafted for round_ in answer.rounds) == (drafting != "none")
    assert_generates(chat, answer, oracle, 1)
    assert_generates(chat, chat.reply("And now?", [image, long, short]), oracle, 2)
    assert_generates(chat, chat.reply("Why?"), oracle, 3)
    for _ in range(3):
        chat.conversation.undo()
    assert_generates(chat, chat.reply("What is it?", long), oracle, 1)


@pytest.mark.parametrize(("backend", "kind"), in_turn(QWENS), indirect=True)
def test_features_of_clips_are_those_of_transformers(qwen, oracle, films):
    for clip in films[:2]:
        ours = [qwen.target.features(moment).numpy() for moment in clip.moments]
        np.testing.assert_allclose(np.concatenate(ours), oracle.clip_features(clip), atol=1e-4)


def test_a_target_rewound_anywhere_continues_like_a_cold_one(qwen, films):
    """Also inside an image or a clip, whose later positions are then those of text."""
    model, cache = qwen.target.model, qwen.target.features
    images = [cache(picture_from(drawing(number, (40, 24)))) for number in (1, 2)]
    target = model.open_target(GREEDY)
    target.extend(Segment([[20, 21], images[0]]))
    with pytest.raises(ValueError, match="extend by text first"):
        target.logits()
    clips = [[cache(moment) for moment in clip.moments] for clip in films]
    for seen, step in (([images[0], [22, 23], images[1]], 5), *((clip, 19) for clip in clips)):
        whole = Segment([[20, 21], *seen, [24, 25, 26]])
        target.rewind(0)  # fed as later: recurrent layers round by pieces
        target.extend(whole)
        expected = target.logits()
        for cut in range(0, len(whole), step):
            continue_from(target, model, whole, cut)
            target.rewind(0)
            target.extend(whole)
        np.testing.assert_allclose(target.logits(), expected, atol=1e-5)


def test_a_limit_on_tokens_holds_for_images_and_clips_and_a_line_says_so(
    backend, qwen_paths, films
):
    large, small = (picture_from(drawing(0, size)) for size in ((60, 40), (16, 16)))
    with load(qwen_paths[0], "none", backend=backend, max_image_tokens=6) as engine:
        for seen, said in (
            (films[1], "16 x 24 pixels, 6 tokens for two frames; `max_image_tokens` allows more"),
            ([large, small], "seen at 24 x 16 pixels, 6 tokens; `max_image_tokens` allows more"),
        ):
            [note] = engine.chat(Options(max_new_tokens=2)).reply("What is it?", seen).notes
            assert said in note
        shown = [large, *films[1].moments]
        assert max(engine.target.features(each).positions for each in shown) <= 6


def asked(films):
    """Two questions about each clip."""
    return [question for clip in films for question in (("What is it?", [clip]), ("Now?", ()))]


@pytest.mark.parametrize(("backend", "kind"), in_turn(QWENS), indirect=True)
def test_answers_are_the_same_bits(backend, exact_qwen_paths, kind, films, near):
    """Also about clips, and where a clip's time outruns its pixels."""
    every = chains if kind == "qwen3_5" else cases
    some = every(["M", "lookup"])[list(QWENS).index(kind) :: 40]
    with load(*exact_qwen_paths, backend=backend, dtype="bfloat16") as engine:
        check_same_bits(engine, some, BUDGET)
        exact = Options(exact="on", drafting="none", max_new_tokens=BUDGET)
        plain, drafted = (
            replies(engine.chat(replace(exact, drafting=word, gamma=3)), asked(films[::2]))
            for word in ("none", "M")
        )
        assert drafted == plain
