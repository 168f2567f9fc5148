"""Adaptive weights: the dense history's on every backend, and never another answer."""

import numpy as np
import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import NO_NOISE, Noise
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.views import parse_drafting
from mmspec.prompt.chunks import render
from support import factory
from support.adaptive_oracle import check as check_weights
from support.adaptive_oracle import softmax
from support.conformance_cases import (
    PICTURES,
    Case,
    check_replies,
    cold,
    outcome,
    questions,
    small,
)

QUESTION = ("What is in the pictures?", PICTURES[:2])
WARM = Sampling(0.8)


def adaptive(**named):
    return Options(drafting="MTCP", gamma=4, max_new_tokens=24, adaptive=True, **named)


def rounds(engine, options):
    """The rounds of an answer with the weights of their drafts, and its prompt."""
    chat = engine.chat(options)
    asking = chat.ask(*QUESTION)
    next(asking)
    chunks = render(chat.conversation, engine.target.template, engine.target.tokenizer)
    asking.close()
    for _ in chat._session.prefill(chunks, chat._drafter):
        pass
    decoding = chat._session.decode(
        FixedDraftLength(options.gamma),
        max_tokens=options.max_new_tokens,
        stop=(),
        seed=options.seed,
    )
    return [(each, chat._drafter.weights()) for each in decoding], chunks


def fed(model, views, chunks, branch):
    """A plain sequence that holds what a branch sees of a prompt."""
    opened = model.open_target(GREEDY)
    for chunk in chunks:
        opened.extend(views.segment(chunk, branch))
    return opened


def told(sequence, tokens):
    """Probabilities [n, V] before each of `tokens`, fed one by one."""
    rows = []
    for token in tokens:
        rows.append(softmax(sequence.logits()))
        sequence.verify(None, NO_NOISE)
        sequence.commit([], token)
    return np.array(rows)


@pytest.mark.parametrize("tree", [None, Tree((3, 2, 1))], ids=["chain", "tree"])
def test_weights_are_those_of_the_dense_history(engine, tree):
    """Target and branches asked one token at a time, as plain sequences."""
    done, chunks = rounds(engine, adaptive(tree=tree))
    said = [token for each, _ in done for token in each.tokens]
    target, draft = engine.target, engine.draft
    drafting = parse_drafting("MTCP", draft.model.config)
    p = told(fed(target.model, target.views(engine.caption), chunks, target.view), said)
    views = draft.views(engine.caption)
    rows = [told(fed(draft.model, views, chunks, each), said) for each in drafting.branches]
    q, at, history = np.stack(rows, axis=1), 0, []
    for each, weights in done:
        if each.drafted:
            check_weights(weights, history, drafting.weights)
            stop = at + min(len(each.tokens), each.depth)
            history.append((p[at:stop], q[at:stop], len(each.tokens)))
        at += len(each.tokens)
    assert len({weights for _, weights in done}) > 2


@pytest.mark.parametrize(
    ("sampling", "tree"), [(GREEDY, Tree((2, 2))), (WARM, None), (WARM, Tree((), 3, 9))]
)
def test_every_backend_fits_the_same_weights(backends, engines, tree, sampling):
    options = adaptive(sampling=sampling, seed=3, tree=tree)
    first, *others = (rounds(engines[name], options)[0] for name in backends)
    for other in others:
        assert [each.tokens for each, _ in other] == [each.tokens for each, _ in first]
        for (one, weights), (two, same) in zip(first, other, strict=True):
            assert (one.drafted, one.accepted) == (two.drafted, two.accepted)
            np.testing.assert_allclose(weights, same, atol=1e-4)


def test_adaptive_equals_plain(engine):
    """Without trees; `test_conformance_sampling.py` and the trees below have the rest."""
    options = Options(drafting="MTCP", gamma=3, max_new_tokens=14, adaptive=True)
    check_replies(engine, options, questions(Case("MTCP", 3, 2, 2), 11))


@pytest.mark.parametrize(
    ("sizes", "tree"), [((320, 384), None), ((384, 320), Tree((), 4, 12)), ((384, 320), None)]
)
def test_a_draft_of_another_vocabulary_is_weighed_in_the_targets(backend, tmp_path, sizes, tree):
    target = factory.tiny_llava(tmp_path / "target", seed=3, vocab_size=sizes[0])
    draft = factory.tiny_llava(tmp_path / "draft", seed=4, vocab_size=sizes[1])
    with load(str(target), str(draft), backend=backend) as engine:
        chat = check_replies(engine, adaptive(tree=tree, sampling=Sampling(4.0)), [QUESTION])
        drafter = chat._drafter.drafter
        weights = drafter._framework.floats(drafter.weights)
        draft = drafter._branches.draft(Plan(4), weights, Noise(0, 100))
        assert draft.branch_probabilities.shape[-1] == sizes[0]
        assert max(draft.ids.tolist()) < min(sizes)


def test_an_interrupted_answer_asked_again_is_a_cold_one(engine):
    options = small(engine, "MTC", max_new_tokens=20, adaptive=True)
    fresh = cold(engine.chat(options), QUESTION)
    for events in (4, 9):
        chat = engine.chat(options)
        asking = chat.ask(*QUESTION)
        for _ in range(events):
            next(asking)
        asking.close()
        for _ in chat.retry():
            pass
        assert outcome(chat) == outcome(fresh)
        np.testing.assert_allclose(chat.answer.weights, fresh.answer.weights, atol=1e-6)
    assert sum(chat.answer.weights) == pytest.approx(1)
    assert max(chat.answer.weights) - min(chat.answer.weights) > 1e-3
