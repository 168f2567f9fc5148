"""How much a target looks at images is what transformers' own attention says, on every backend."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conformance_cases import (
    PICTURES,
    TREES,
    Case,
    cold,
    outcome,
    plainly,
    questions,
    replies,
    small,
)
from scripted_tree import paths
from transformers import LlavaForConditionalGeneration

import factory
from mmspec.conversation import render
from mmspec.draft import HostDraft
from mmspec.engine import load
from mmspec.images import Picture, pixels
from mmspec.options import Options
from mmspec.sampling import GREEDY, Sampling
from mmspec.seam import Segment

LAYOUTS = {"plain": {}, "grouped": {"key_value_heads": 2}, "one key head": {"key_value_heads": 1}}
TURNS = [
    ("What is in the two pictures?", PICTURES[:2]),
    ("And which one is larger?", PICTURES[2:3]),
]
CHAIN = [40, 41, 42]
WARM = Sampling(0.8)
SKIPPING = {"max_new_tokens": 24, "gamma": 3, "skip_vision": 0.4}


@pytest.fixture(scope="session", params=LAYOUTS)
def checkpoint(request, checkpoints):
    """One checkpoint per layout, and transformers' model of it with its textbook attention."""
    path = factory.tiny_llava(
        checkpoints / f"looks {request.param}", seed=4, **LAYOUTS[request.param]
    )
    model = LlavaForConditionalGeneration.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager"
    )
    return path, model.eval()


def looks(model, ids, pictures, preprocessing):
    """[n] the share of the last layer's attention that each of `ids` gives to image positions."""
    inputs = torch.tensor([ids])
    with torch.no_grad():
        told = model(
            input_ids=inputs,
            attention_mask=torch.ones_like(inputs),
            pixel_values=torch.stack([torch.tensor(pixels(p, preprocessing)) for p in pictures]),
            output_attentions=True,
        )
    assert len(told.attentions) == model.config.text_config.num_hidden_layers
    image = inputs[0] == factory.IMAGE_TOKEN_ID
    return told.attentions[-1][0].mean(dim=0)[:, image].sum(dim=-1).numpy()


def flat(chunks, positions):
    """The ids and pictures of a prompt."""
    ids, pictures = [], []
    for part in (part for chunk in chunks for part in chunk.parts):
        shown = isinstance(part, Picture)
        pictures += [part] if shown else []
        ids += [factory.IMAGE_TOKEN_ID] * positions if shown else part
    return ids, pictures


IMAGE = [factory.IMAGE_TOKEN_ID] * 16
IDS = [1, 20, *IMAGE, 21, 22, *IMAGE, 30, 31, 32]


def watching(engine, pictures, ids=IDS, sampling=GREEDY):
    """A target that holds `ids`, with pictures in them."""
    target = engine.target.model.open_target(sampling, watch=True)
    target.extend(Segment(ids, [engine.target.features(each) for each in pictures]))
    return target


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "drawn"])
def test_every_drafted_token_is_watched_as_transformers_attends(checkpoint, backend, sampling):
    path, model = checkpoint
    engine = load(str(path), "none", backend=backend)
    target = watching(engine, PICTURES[:2], sampling=sampling)
    draws = [] if sampling.greedy else [0.5] * 4
    expected = looks(model, IDS + CHAIN, PICTURES[:2], engine.target.features.preprocessing)
    drafted = target.verify(HostDraft(CHAIN), draws).seen
    np.testing.assert_allclose(drafted, expected[len(IDS) - 1 :], atol=1e-5)
    plain = target.verify(None, draws[:1]).seen
    np.testing.assert_allclose(plain, expected[len(IDS) - 1 : len(IDS)], atol=1e-5)
    assert min(expected[-4:]) > 0.02
    assert np.ptp(expected[-4:]) > 0.02


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "drawn"])
@pytest.mark.parametrize("tree", [TREES["static"], TREES["dynamic"]], ids=["static", "dynamic"])
def test_every_node_of_a_tree_is_watched_as_if_its_path_had_been_said(
    checkpoint, backend, tree, sampling
):
    path, model = checkpoint
    engine = load(str(path), str(path), backend=backend)
    target = watching(engine, PICTURES[:2], sampling=sampling)
    drafter = engine.draft.model.open_drafter(
        1, engine.target.model.config.text.vocab_size, sampling, None, tree
    )
    drafter.extend([Segment(IDS[-3:])])
    draft = drafter.draft(3, [1.0], ())
    verdict = target.verify(draft, [] if sampling.greedy else [0.5] * (draft.size + 1))
    said = [[], *paths(verdict.drafted, verdict.parents)]
    assert max(map(len, said)) > 1
    preprocessing = engine.target.features.preprocessing
    expected = [looks(model, IDS + each, PICTURES[:2], preprocessing)[-1] for each in said]
    np.testing.assert_allclose(verdict.seen, expected, atol=1e-5)
    assert np.ptp(expected) > 0.02


def test_the_rounds_of_two_turns_tell_what_transformers_attends(checkpoint, backend):
    """With the target as its own draft, half blind, so that some of its tokens are rejected."""
    path, model = checkpoint
    engine = load(str(path), str(path), backend=backend)
    chat = engine.chat(Options(drafting="MT", **SKIPPING))
    plain = 0
    for text, pictures in TURNS:
        rounds = chat.reply(text, pictures).rounds
        before = chat.conversation.turns.pop()
        chat.conversation.add(before.question)
        chunks = render(chat.conversation, engine.target.template, engine.target.tokenizer)
        ids, shown = flat(chunks, engine.target.model.config.image_tokens)
        said = [token for each in rounds for token in each.tokens]
        expected = looks(model, ids + said, shown, engine.target.features.preprocessing)
        ends = len(ids) + np.cumsum([len(each.tokens) for each in rounds]) - 2
        seen = [each.seen for each in rounds]
        np.testing.assert_allclose(seen, expected[ends], atol=1e-5)
        for share, each in zip(seen, rounds[1:-1], strict=False):
            assert (each.drafted == 0) == (share >= SKIPPING["skip_vision"])
            plain += each.drafted == 0
        chat.conversation.answer(before.answer, before.answer_text)
    assert plain


def test_a_rewound_target_sees_what_is_left(engine):
    """Both images, the first and a part of the second, the first, none."""
    target = watching(engine, PICTURES[:2])
    second = IDS.index(22) + 1
    for keep in (len(IDS) - 1, second + 5, second, 2):
        target.commit([0, 1], target.verify(HostDraft(CHAIN), ()).fallback[2])
        target.rewind(keep)
        again = watching(engine, PICTURES[:2])
        again.rewind(keep)
        seen = target.verify(HostDraft(CHAIN), ()).seen
        np.testing.assert_allclose(seen, again.verify(HostDraft(CHAIN), ()).seen, atol=1e-6)
        if keep == second:
            first = watching(engine, PICTURES[:1], IDS[:keep])
            np.testing.assert_allclose(seen, first.verify(HostDraft(CHAIN), ()).seen, atol=1e-6)
        assert bool(seen) == (keep > 2)


def test_nothing_is_told_without_an_image_or_without_watching(engine):
    unwatched = engine.target.model.open_target(GREEDY)
    features = engine.target.features(PICTURES[0])
    unwatched.extend(Segment([1, *IMAGE, 20], [features]))
    blind = engine.target.model.open_target(GREEDY, watch=True)
    blind.extend(Segment([1, 20, 21]))
    for target in (unwatched, blind):
        assert target.verify(HostDraft(CHAIN), ()).seen == []
        assert target.verify(None, ()).seen == []


@pytest.mark.parametrize("threshold", [0.0, 0.35, 1.0])
@pytest.mark.parametrize(
    ("word", "gamma", "tree"),
    [
        ("M", 3, None),
        ("MTC", 3, None),
        ("ngram", 3, None),
        ("MT", "auto", None),
        ("M", 3, "static"),
        ("MT", "auto", "dynamic"),
    ],
)
def test_skipping_equals_plain(engine, word, gamma, tree, threshold):
    branches = {"tree": TREES[tree]} if tree else {}
    options = small(engine, word, gamma=gamma, skip_vision=threshold, **branches)
    asked = list(questions(Case(word, 3, 2, 2), 11))
    assert replies(engine.chat(options), asked) == replies(engine.chat(plainly(options)), asked)


@pytest.mark.parametrize("tree", [None, TREES["dynamic"]], ids=["chain", "tree"])
def test_backends_skip_the_same_rounds(backends, engines, tree):
    """Of a drawn answer, where the draws must not shift either."""
    told = []
    for name in backends:
        options = small(engines[name], "MT", **SKIPPING, sampling=WARM, seed=3, tree=tree)
        told.append(engines[name].chat(options).reply(*TURNS[0]).rounds)
    for other in told[1:]:
        assert [(each.tokens, each.drafted) for each in other] == [
            (each.tokens, each.drafted) for each in told[0]
        ]
        np.testing.assert_allclose(
            [each.seen for each in other], [each.seen for each in told[0]], atol=1e-5
        )


def test_an_interrupted_answer_asked_again_is_a_cold_one(engine):
    options = small(engine, "MT", **SKIPPING)
    fresh = cold(engine.chat(options), TURNS[0])
    for events in (4, 6, 9):
        chat = engine.chat(options)
        asking = chat.ask(*TURNS[0])
        for _ in range(events):
            next(asking)
        asking.close()
        for _ in chat.retry():
            pass
        assert outcome(chat) == outcome(fresh)
    assert replace(options, skip_vision=None).watches is False
