"""Drafted text is plain text: chains, trees, drafts without room, weights that are fitted."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import NO_NOISE, Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.views import parse_drafting
from mmspec.prompt.chunks import render
from support import factory
from support.adaptive_oracle import check as check_weights
from support.adaptive_oracle import softmax
from support.conformance_cases import (
    DRAFTINGS,
    PICTURES,
    TREES,
    by_turns,
    check_like_cold,
    check_replies,
    in_turn,
    interrupt,
    questions,
    small,
)
from support.sequence_helpers import fed

GAMMAS, DEPTHS, IMAGES = (1, 2, 3, 5, 8), (1, 2, 5, 8), (1, 2, 5)


def check(engine, drafting, gamma, asked, **named):
    """The last answer to questions (images, turns, seed); all answers are plain ones."""
    options = Options(drafting, gamma=gamma, max_new_tokens=8, **named)
    return check_replies(engine, options, questions(*asked)).answer


def shapes(row):
    """Draft length, tree, images and turns; over all rows every pair of two of their values."""
    for gamma in GAMMAS:
        yield gamma, None, IMAGES[(row + gamma) % 3], 1 + (row + gamma // 3) % 2
    for at, tree in enumerate(TREES.values()):
        yield DEPTHS[(row + at) % 4], tree, IMAGES[(row + at) % 3], 1 + (row // 2 + at) % 2


@pytest.mark.parametrize("drafting", DRAFTINGS)
def test_speculative_equals_plain(engine, backend, drafting):
    row = DRAFTINGS.index(drafting)
    cases = [*shapes(row)]
    if drafting == "T":  # without images all views are equal
        cases += [(gamma, tree, 0, turns) for gamma, tree, _, turns in cases]
    answers = [
        check(engine, drafting, gamma, (images, turns, gamma % 4), tree=tree).statistics
        for gamma, tree, images, turns in by_turns(cases, backend, row)
    ]
    accepted, depth, drafted = (
        sum(getattr(each, name) for each in answers) for name in ("accepted", "depth", "drafted")
    )
    assert accepted < depth <= drafted
    assert accepted or drafting == "C"  # captions alone are seldom right


@pytest.mark.slow
@pytest.mark.parametrize("drafting", DRAFTINGS)
def test_speculative_equals_plain_in_the_full_product(engine, drafting):
    """Without images all views are equal, and T stands for them."""
    images = (0, *IMAGES) if drafting == "T" else IMAGES
    for seed, (gamma, *asked) in enumerate(product(range(1, 9), images, (1, 2)), start=1000):
        check(engine, drafting, gamma, (*asked, seed))


KEPT = [
    ("default", "MTCP", "auto", "TP"),
    ("default", "MTCP", "pool", "PT"),
    ("default", "MTCP", "drop", "TP"),
    ("default", "MTCP", "run", "MTCP"),
    ("full", "M", "pool", "P"),
    ("full", "MTP", "pool", "PT"),
]
"""What is left of a drafting with five images, with towers that drop their class token or keep it.

Captions are long, images fit only when pooled.
"""


@pytest.fixture(scope="session")
def short_pairs(checkpoints):
    """Function that returns a pair whose draft has 112 positions, by what its towers keep."""
    return cache(
        lambda tower: factory.tiny_pair(
            checkpoints / f"short {tower}", select_strategy=tower, draft_positions=112
        )
    )


@pytest.mark.parametrize(("backend", "case"), in_turn(KEPT), indirect=["backend"])
def test_a_draft_that_runs_out_of_positions_changes_nothing(
    backend, short_pairs, case, monkeypatch
):
    """Branches too long to start, and (with a low bar for starting) those that end on the way."""
    tower, drafting, overflow, kept = case
    engine = load(*short_pairs(tower), backend=backend)
    answer = check(engine, drafting, 3, (5, 1, 0), overflow=overflow)
    assert answer.drafting.spec == kept
    assert answer.statistics.drafted
    monkeypatch.setattr("mmspec.chat.draft_selection.TYPICAL_ANSWER", 0)
    for images in (2, 5):
        check(engine, "MTC", 3, (images, 2, images), overflow=overflow)


QUESTION = ("What is in the pictures?", tuple(PICTURES[:2]))
WARM, CUT = Sampling(0.8), Sampling(0.8, top_p=0.95)


def adaptive(**named):
    return Options(drafting="MTCP", gamma=4, max_new_tokens=24, adaptive=True, **named)


def rounds(engine, options):
    """The rounds of an answer with the weights of their drafts, and its prompt."""
    chat = engine.chat(options)
    asking = chat.ask(*QUESTION)
    next(asking)
    chunks = render(chat.conversation, engine.target.template, engine.target.tokenizer)
    asking.close()
    list(chat._session.prefill(chunks, chat._drafter))
    decoding = chat._session.decode(
        FixedDraftLength(options.gamma),
        max_tokens=options.max_new_tokens,
        stop=(),
        seed=options.seed,
    )
    return [(each, chat._drafter.weights()) for each in decoding], chunks


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
    ("sizes", "tree"), [((320, 384), None), ((384, 320), Tree((), 4, 12)), ((384, 320), None)]
)
def test_a_draft_of_another_vocabulary_is_weighed_in_the_targets(backend, tmp_path, sizes, tree):
    target = factory.tiny_llava(tmp_path / "target", seed=3, vocab_size=sizes[0])
    draft = factory.tiny_llava(tmp_path / "draft", seed=4, vocab_size=sizes[1])
    with load(target, draft, backend=backend) as engine:
        chat = check_replies(engine, adaptive(tree=tree, sampling=Sampling(4.0)), [QUESTION])
        drafter = chat._drafter.drafter
        weights = drafter._framework.floats(drafter.weights)
        draft = drafter._branches.draft(Plan(4), weights, Noise(0, 100))
        assert draft.branch_probabilities.shape[-1] == sizes[0]
        assert max(draft.ids.tolist()) < min(sizes)


def test_an_interrupted_answer_asked_again_is_a_cold_one(engine):
    """Its weights too, on which depends how many tokens are accepted."""
    chat = engine.chat(small(engine, "MTC", max_new_tokens=20, adaptive=True))
    for events in (4, 9):
        assert interrupt(chat, QUESTION, events)
        chat.conversation.reset()
        check_like_cold(chat, QUESTION)
        chat.conversation.reset()
    assert max(chat.answer.weights) - min(chat.answer.weights) > 1e-3
