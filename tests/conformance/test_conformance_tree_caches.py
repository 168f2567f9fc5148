"""A tree's nodes are seen, judged and kept as if each had been said in a sequence of its own."""

from pkgutil import resolve_name

import numpy as np
import pytest
from test_conformance_chat import GATHERS
from test_conformance_sequences import (
    BRANCHES,
    CHUNKS,
    OTHER,
    drafter_of,
    feed_drafter,
    target_of,
)

from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from mmspec.decoding.tree_drafting import draft_tree
from mmspec.ground.errors import DraftError
from support import sequence_helpers as helpers
from support.adaptive_oracle import softmax
from support.conformance_cases import TREES
from support.scripted import PathExpander, paths
from support.stand_ins import Breaking, Fault

DEPTH = 3
MIXED = [0.4, 0.3, 0.2, 0.1]
each_tree = pytest.mark.parametrize("tree", TREES.values(), ids=TREES)


def plain_rows(engine, views, chunks, said):
    """What the branches together say after a path, each asked as a plain sequence."""
    sequences = []
    for branch in BRANCHES:
        opened = helpers.fed(engine.draft.model, views, chunks, branch)
        opened.extend(Segment([list(said)]))
        sequences.append((opened, opened.length))

    def row(path):
        rows = []
        for opened, length in sequences:
            opened.rewind(length)
            opened.extend(Segment([path]))
            rows.append(softmax(opened.logits()))
        return np.log(np.average(rows, axis=0, weights=MIXED))

    return row


def grown(engine, drafter):
    """Tokens and parents of what a drafter grows, read by verifying."""
    target = target_of(engine, engine.target.views(lambda _: []), CHUNKS[4:])
    verdict = target.verify(helpers.draft(drafter, DEPTH, *MIXED), NO_NOISE)
    return verdict.drafted, verdict.parents


def expected(engine, views, tree, chunks, said=()):
    rows = plain_rows(engine, views, chunks, said)
    noisy = HOST.keys(NO_NOISE, DEPTH)
    draft = draft_tree(HOST, HOST.sampler(GREEDY), PathExpander(rows), tree, noisy)
    return draft.ids.tolist(), draft.parents.tolist()


def root_path(parents, node):
    """The nodes from the root down to `node`."""
    return [*(root_path(parents, parents[node]) if parents[node] >= 0 else []), node]


# Drafting


@each_tree
def test_branches_grow_the_tree_that_plain_sequences_would(engine, views, tree):
    """After turns with images between them, after commits of all sorts, and after a rewind."""
    drafter = drafter_of(engine, views, CHUNKS, tree=tree)
    length, said = drafter.length, []
    assert grown(engine, drafter) == expected(engine, views, tree, CHUNKS)
    target = target_of(engine, views, CHUNKS)
    for node in (-1, 0, len(expected(engine, views, tree, CHUNKS)[0]) - 1):
        verdict = target.verify(helpers.draft(drafter, DEPTH, *MIXED), NO_NOISE)
        path = root_path(verdict.parents, node) if node >= 0 else []
        tokens = [*verdict.along(path), 60 + len(said)]
        target.commit(path, tokens[-1])
        drafter.commit(path, tokens)
        said += tokens
    drafter.commit([], [62, 63])  # of a round that was not drafted
    said += [62, 63]
    assert grown(engine, drafter) == expected(engine, views, tree, CHUNKS, said=said)
    drafter.rewind(length)
    feed_drafter(drafter, views, [OTHER])
    assert grown(engine, drafter) == expected(engine, views, tree, [*CHUNKS, OTHER])


# Verifying


def verified(engine, views, tree):
    target = target_of(engine, views, CHUNKS)
    drafter = drafter_of(engine, views, CHUNKS, tree=tree)
    return target, target.verify(helpers.draft(drafter, DEPTH, *MIXED), NO_NOISE)


@each_tree
def test_every_node_is_judged_as_if_its_path_had_been_said(engine, views, tree):
    _, verdict = verified(engine, views, tree)
    cold = target_of(engine, views, CHUNKS)
    length, best = cold.length, []
    for path in ([], *paths(verdict.drafted, verdict.parents)):
        cold.rewind(length)
        cold.extend(Segment([path]))
        best.append(int(cold.logits().argmax()))
    assert verdict.best == best


@each_tree
def test_any_path_can_be_kept(engine, views, tree):
    """Then the sequence goes on, verifies another tree and is rewound, all as a cold one does."""
    target, verdict = verified(engine, views, tree)
    start, before = target.length, target.logits()
    drafter = drafter_of(engine, views, CHUNKS, tree=tree)
    for node in range(0, len(verdict.drafted), 1 + len(verdict.drafted) // 6):
        target.verify(helpers.draft(drafter, DEPTH, *MIXED), NO_NOISE)
        path = root_path(verdict.parents, node)
        target.commit(path, 77)
        cold = target_of(engine, views, CHUNKS)
        cold.extend(Segment([[*verdict.along(path), 77]]))
        np.testing.assert_allclose(target.logits(), cold.logits(), atol=5e-5)
        draft = helpers.draft(drafter, 2, *MIXED)
        assert target.verify(draft, NO_NOISE) == cold.verify(draft, NO_NOISE)
        for each in (target, cold):
            each.extend(views.segment(OTHER, BRANCHES[0]))
        np.testing.assert_allclose(target.logits(), cold.logits(), atol=5e-5)
        target.rewind(start)
        np.testing.assert_allclose(target.logits(), before, atol=1e-5)


def test_a_path_within_a_prompt_is_kept_after_a_rewind(engine, views):
    """A rewind into what was fed leaves the last token to be fed again, before a tree too."""
    target, _ = verified(engine, views, TREES["static"])
    target.rewind(target.length - 1)
    cold = target_of(engine, views, CHUNKS[:-1])
    cold.extend(Segment([[70, 71]]))
    draft = helpers.draft(drafter_of(engine, views, CHUNKS, tree=TREES["static"]), 3, *MIXED)
    one, other = (each.verify(draft, NO_NOISE) for each in (target, cold))
    assert one == other
    path = root_path(one.parents, len(one.drafted) - 1)
    for each in (target, cold):
        each.commit(path, 77)
    np.testing.assert_allclose(target.logits(), cold.logits(), atol=5e-5)


def test_what_is_no_path_is_refused_and_changes_nothing(engine, views):
    target, verdict = verified(engine, views, TREES["static"])
    drafter, length = drafter_of(engine, views, CHUNKS, tree=TREES["static"]), target.length
    for path in ([1, 2], [0, 99], [len(verdict.drafted) - 1]):
        with pytest.raises(ValueError, match="no path"):
            target.commit(path, 77)
        assert target.length == length
        target.verify(helpers.draft(drafter, DEPTH, *MIXED), NO_NOISE)
    helpers.draft(drafter, 2, *MIXED)
    with pytest.raises(ValueError, match="deep"):
        drafter.commit([0, 1, 2], [1, 2, 3, 4])


@pytest.mark.parametrize("token", [-1, 10**6, 2**70])
def test_a_token_beyond_the_vocabulary_is_refused_and_changes_nothing(engine, views, token):
    target = target_of(engine, views, CHUNKS)
    length, logits = target.length, target.logits()
    with pytest.raises(DraftError, match=str(token)):
        target.verify(HostDraft([3, token]), NO_NOISE)
    assert target.length == length
    np.testing.assert_array_equal(target.logits(), logits)


@pytest.mark.parametrize("nodes", [1, 8, 40])
def test_a_round_may_draft_a_smaller_tree_or_a_chain(engine, views, nodes):
    """As a drafter that was opened with that tree, or with none, whatever it drafted before."""
    drafter = drafter_of(engine, views, CHUNKS, tree=Tree((), 5, 30))
    helpers.draft(drafter, 2, *MIXED)
    own = Tree((), 5, 30) if nodes > 30 else Tree((), 3, nodes) if nodes > DEPTH else None
    other = drafter_of(engine, views, CHUNKS, tree=own)
    target = target_of(engine, engine.target.views(lambda _: []), CHUNKS[4:])
    drafts = (
        helpers.draft(each, DEPTH, *MIXED, **plan)
        for each, plan in ((drafter, {"nodes": nodes}), (other, {}))
    )
    told, expected = (target.verify(draft, NO_NOISE) for draft in drafts)
    assert (told.drafted, told.parents) == (expected.drafted, expected.parents)


def test_a_gather_that_broke_voids_the_draft(engine, views, backend, monkeypatch):
    """Its columns may have moved; the sequence never had them."""
    target, verdict = verified(engine, views, TREES["static"])
    path = root_path(verdict.parents, len(verdict.drafted) - 1)
    place = GATHERS.format(backend)
    monkeypatch.setattr(place, Breaking(after=True, at=1).around(resolve_name(place)))
    with pytest.raises(Fault):
        target.commit(path, 5)
    with pytest.raises(ValueError, match="verified just now"):
        target.commit(path, 5)
    cold = target_of(engine, views, CHUNKS)
    assert helpers.plain(target, 8) == helpers.plain(cold, 8)
