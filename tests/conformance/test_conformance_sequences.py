"""Every cache class fed, rewound and fed again; rows of a batch alone and together; reads."""

from collections import Counter
from importlib import import_module

import numpy as np
import pytest

from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.views import Branch
from mmspec.prompt.chunks import Chunk
from support import sequence_helpers as helpers
from support.conformance_cases import PICTURES, TREES, small

BRANCHES = [Branch("M"), Branch("T"), Branch("C"), Branch("P", 4)]
CHUNKS = [
    Chunk((1, 20, 21, PICTURES[0], 22, 30)),
    Chunk((40, 41, 42, 43), is_answer=True),
    Chunk((50, PICTURES[1], 51, PICTURES[2], 52, 53)),
    Chunk((60, 61), is_answer=True),
    Chunk((70, 71, 72)),
]
"""Two turns with images between them lengthen the rows unevenly, twice."""
OTHER = Chunk((50, PICTURES[3], 51, 52))


def target_of(engine, views, chunks):
    return helpers.fed(engine.target.model, views, chunks)


def drafter_of(engine, views, chunks, branches=BRANCHES, tree=None):
    drafter = engine.draft.model.open_branches(len(branches), 320, GREEDY, tree)
    return feed_drafter(drafter, views, chunks, branches)


def feed_drafter(drafter, views, chunks, branches=BRANCHES):
    for chunk in chunks:
        drafter.extend([views.segment(chunk, branch) for branch in branches])
    return drafter


def proposals(engine, drafter):
    """What each row says alone, and what all say together, read by verifying."""
    target = target_of(engine, engine.target.views(lambda _: []), CHUNKS[4:])
    mixtures = [*np.eye(len(drafter.row_lengths)), ()]
    drafts = (helpers.draft(drafter, 6, *weights) for weights in mixtures)
    return [target.verify(draft, NO_NOISE).drafted for draft in drafts]


@pytest.mark.parametrize("keep", range(6))
def test_a_drafter_rewound_anywhere_continues_like_a_cold_one(engine, views, keep):
    ends, rest = [0], [OTHER, *CHUNKS[1:2]]
    drafter = engine.draft.model.open_branches(4, 320, GREEDY)
    for chunk in CHUNKS:
        ends.append(feed_drafter(drafter, views, [chunk]).length)
    helpers.rounds(target_of(engine, views, CHUNKS), drafter, 6, gamma=2)
    drafter.rewind(ends[keep])
    feed_drafter(drafter, views, rest)
    fresh = drafter_of(engine, views, [*CHUNKS[:keep], *rest])
    assert (drafter.length, drafter.row_lengths) == (fresh.length, fresh.row_lengths)
    assert proposals(engine, drafter) == proposals(engine, fresh)


def test_rows_of_a_batch_draft_what_each_drafts_alone(engine, views):
    target = target_of(engine, views, CHUNKS)
    drafter = drafter_of(engine, views, CHUNKS)
    said, before = [], drafter.row_lengths
    for _ in range(3):
        helpers.draft(drafter, 2)
        token = target.verify(None, NO_NOISE).best[0]
        target.commit([], token)
        drafter.commit([], [token])
        said.append(token)
    assert drafter.row_lengths == [length + 3 for length in before]
    committed = proposals(engine, drafter)
    drafter.rewind(drafter.length)
    assert proposals(engine, drafter) == committed
    feed_drafter(drafter, views, [OTHER])
    together = proposals(engine, drafter)
    assert len({tuple(each) for each in together[:4]}) > 1
    for row, branch in enumerate(BRANCHES):
        alone = drafter_of(engine, views, CHUNKS, [branch])
        alone.commit([], said)
        feed_drafter(alone, views, [OTHER], [branch])
        assert alone.row_lengths == [drafter.row_lengths[row]]
        assert proposals(engine, alone)[0] == together[row]


def test_a_drafter_extended_after_a_rejected_draft_continues_like_a_cold_one(engine, views):
    drafter, fresh = (drafter_of(engine, views, CHUNKS) for _ in range(2))
    helpers.draft(drafter, 3)
    for each in (drafter, fresh):
        each.commit([], [40])
        feed_drafter(each, views, [OTHER])
    assert proposals(engine, drafter) == proposals(engine, fresh)


READ_METHODS = ["tolist", "item", "__bool__", "__int__", "__index__"]
READS = {
    "torch": ("torch", "Tensor", ["cpu", "numpy", "nonzero", *READ_METHODS]),
    "mlx": ("mlx.core", "array", ["__array__", *READ_METHODS]),
}
"""Where each backend's numbers come to the host."""


def count_reads(backend, monkeypatch):
    """Counts under "all" whenever a number comes to the host, from now on."""
    reads = Counter()
    module, owner, names = READS[backend]
    place = getattr(import_module(module), owner)
    for name in names:
        original = getattr(place, name)

        def spy(*given, _original=original, **named):
            reads["all"] += 1
            return _original(*given, **named)

        monkeypatch.setattr(place, name, spy)
    return reads


HOW = {
    "static": {},
    "drawn": {"sampling": Sampling(0.8)},
    "adaptive": {"adaptive": True},
    "tree": {"tree": TREES["static"]},
    "dynamic": {"tree": TREES["dynamic"]},
}


@pytest.mark.parametrize(("drafting", "how"), [("M", "static"), *(("MTCP", how) for how in HOW)])
def test_a_round_reads_from_the_device_once(engine, backend, drafting, how, monkeypatch):
    chat = engine.chat(small(engine, drafting, **HOW[how]))
    chat.reply("What is in the picture?", PICTURES[:1])
    reads = count_reads(backend, monkeypatch)
    rounds = chat._session.decode(FixedDraftLength(3), max_tokens=20, stop=(), seed=0)
    counted = [(reads["all"], each.drafted) for each in rounds]
    assert [count for count, _ in counted] == list(range(1, len(counted) + 1))
    assert sum(drafted for _, drafted in counted) > 10


def test_an_answer_that_says_the_image_token_is_fed_again_as_text(engine, views):
    """Committed as the model said it, then given to fresh sequences: the same logits."""
    image = engine.target.model.config.image_token_id
    said = target_of(engine, views, CHUNKS[:1])
    for token in (40, image, 41):
        said.verify(None, NO_NOISE)
        said.commit([], token)
    answer = Chunk((40, image, 41), is_answer=True)
    again = target_of(engine, views, [CHUNKS[0], answer])
    np.testing.assert_allclose(again.logits(), said.logits(), atol=5e-5)
    drafter = drafter_of(engine, views, [CHUNKS[0], answer])
    assert drafter.row_lengths[0] == again.length


def test_caches_that_grow_keep_what_they_hold(engine, views):
    """They grow by 256 columns: fed in two parts around that, and at once."""
    text, rest = tuple(20 + at % 90 for at in range(200)), tuple(range(30, 90))
    parts = [Chunk((*text, PICTURES[0], 5, 6)), Chunk(rest, is_answer=True)]
    whole = [Chunk((*text, PICTURES[0], 5, 6, *rest))]
    logits = [target_of(engine, views, chunks).logits() for chunks in (parts, whole)]
    np.testing.assert_allclose(*logits, atol=1e-5)
    drafters = [drafter_of(engine, views, chunks) for chunks in (parts, whole)]
    assert proposals(engine, drafters[0]) == proposals(engine, drafters[1])


def test_a_token_that_the_draft_lacks_is_the_same_said_or_read(engine, views):
    """The target may have more of them: both ways the draft reads its own nearest one."""
    foreign = engine.draft.model.config.text.vocab_size
    read, said, nearest = (drafter_of(engine, views, CHUNKS[:1]) for _ in range(3))
    feed_drafter(read, views, [Chunk((foreign, foreign), is_answer=True)])
    for drafter, token in ((said, foreign), (nearest, foreign - 1)):
        drafter.commit([], [token])
        drafter.commit([], [token])
    assert proposals(engine, read) == proposals(engine, said) == proposals(engine, nearest)
