"""Views, weights and the overflow rule, on prompts counted by hand; adaptive weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import DeviceDraft, Plan
from mmspec.decoding.host_framework import HOST, HostFeatures
from mmspec.decoding.loop import decode
from mmspec.decoding.noise import NO_NOISE
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.view_drafter import Tally
from mmspec.drafters.views import PLAIN, Branch, Drafting, Views, fit, parse_drafting
from mmspec.families.grid import Grid, PlaneGrid
from mmspec.ground.errors import UsageError
from mmspec.prompt.chunks import Chunk
from support.scripted import ScriptedDrafter, ScriptedFeatures, ScriptedTarget
from support.scripted_engine import SEES, picture

M, T, C, P = Branch("M"), Branch("T"), Branch("C"), Branch("P", 4)
ONE, TWO = picture(1), picture(2)
CHUNK = Chunk((1, 5, ONE, 6, TWO, 7, 8))
CAPTIONS = {ONE: [30, 31, 32], TWO: [40]}


@pytest.fixture
def views():
    kept = {each: ScriptedFeatures(each.name, 16) for each in (ONE, TWO)}
    return Views(13, kept.__getitem__, lambda _: Grid(4, 4), CAPTIONS.__getitem__)


@pytest.mark.parametrize(
    ("word", "weights", "pool", "problem"),
    [
        ("MX", (), None, "'MX'"),
        ("MM", (), None, "at most once"),
        ("MT", (1,), None, "give 2 numbers, one for each letter"),
        ("MT", (1, -1), None, ">= 0"),
        ("MT", (0, 0), None, "above 0"),
        ("MT", (1, float("nan")), None, "above 0"),
        ("P", (), 9, r"divides into 4, 1 \(nearest: 4\)"),
    ],
)
def test_what_cannot_be_had_is_named(word, weights, pool, problem):
    with pytest.raises(UsageError, match=problem):
        parse_drafting(word, SEES, weights, pool)


positive = some.lists(some.floats(0, 1000), min_size=4, max_size=4).filter(lambda w: sum(w) > 1e-3)


@given(positive)
def test_weights_keep_their_ratios_and_sum_to_one(weights):
    got = parse_drafting("MTCP", SEES, weights).weights
    assert sum(got) == pytest.approx(1)
    assert [w * sum(weights) for w in got] == pytest.approx(weights)


@pytest.mark.parametrize(
    ("branch", "tokens", "digests"),
    [
        (M, [1, 5, *[3] * 16, 6, *[3] * 16, 7, 8], ["p1", "p2"]),
        (T, [1, 5, 13, 6, 13, 7, 8], []),
        (C, [1, 5, 30, 31, 32, 6, 40, 7, 8], []),
        (P, [1, 5, *[3] * 4, 6, *[3] * 4, 7, 8], ["p1/4", "p2/4"]),
    ],
    ids=str,
)
def test_each_view_shows_an_image_its_way(views, branch, tokens, digests):
    segment = views.segment(CHUNK, branch)
    assert segment.token_ids(3) == tokens
    assert [each.digest for _, each in segment.images(0)] == digests
    assert views.length([CHUNK, CHUNK], branch) == 2 * len(tokens)


@pytest.mark.parametrize("size", [1, 2, 3, 512])
def test_pieces_join_to_the_segment_and_keep_images_whole(views, size):
    pieces = list(views.pieces(CHUNK, M, size))
    whole = views.segment(CHUNK, M)
    assert [token for piece in pieces for token in piece.token_ids(3)] == whole.token_ids(3)
    images = [each for piece in pieces for each in piece.images(0)]
    assert [image for _, image in images] == [image for _, image in whole.images(0)]
    assert all(len(piece) <= (16 if list(piece.images(0)) else size) for piece in pieces)


def lengths(images):
    """Prompt positions by branch for a prompt of so many images."""
    sizes = {"M": 16, "T": 1, "C": 10}
    return lambda branch: 20 + images * (branch.positions or sizes[branch.letter])


@pytest.mark.parametrize(
    ("word", "weights", "room", "rule", "left"),
    [
        ("MTCP", (), 100, "pool", parse_drafting("MTCP", SEES)),
        ("MTCP", (), 1, "run", parse_drafting("MTCP", SEES)),
        ("MTC", (2, 1, 1), 70, "drop", Drafting((T, C), (0.5, 0.5))),
        ("MT", (), 40, "pool", Drafting((P, T), (0.5, 0.5))),
        ("M", (), 39, "pool", Drafting((Branch("P", 1),), (1.0,))),
        ("M", (), 24, "pool", PLAIN),
        ("MC", (), 25, "drop", Drafting((T,), (1.0,))),  # where no branch is left
        ("MC", (), 24, "drop", PLAIN),
        ("MTP", (2, 1, 1), 40, "pool", Drafting((P, T), (0.75, 0.25))),  # M becomes P
        ("MT", (1, 0), 25, "drop", PLAIN),  # all that is left weighs nothing
        ("CT", (), 25, "pool", Drafting((T,), (1.0,))),
    ],
)
def test_branches_without_room_are_pooled_dropped_or_run(word, weights, room, rule, left):
    """Five images: M takes 100 positions, P 40, C 70, T 25."""
    drafting, notes = fit(parse_drafting(word, SEES, weights), room, lengths(5), SEES, rule)
    assert drafting == left
    assert bool(notes) == (drafting != parse_drafting(word, SEES, weights))


def test_a_class_token_before_the_grid_is_not_pooled():
    rows = np.arange(32.0).reshape(16, 2)
    seen = HostFeatures(rows, Grid(4, 4))
    with_class_token = HostFeatures(np.concatenate([[[99.0, 99.0]], rows]), Grid(4, 4, 1))
    for positions in (4, 1):
        expected = seen.pool(positions).rows
        np.testing.assert_array_equal(with_class_token.pool(positions).rows, expected)
    with pytest.raises(UsageError, match="17 visual positions cannot be pooled to 9"):
        with_class_token.pool(9)


@given(some.integers(1, 9), some.integers(1, 9), some.integers(1, 90))
def test_a_plane_of_any_shape_is_pooled_to_at_most_so_many(height, width, positions):
    """Every square's average counts each of its rows once; the smallest squares that fit."""
    rows = np.random.default_rng(height).normal(size=(height * width, 3))
    pooled = HostFeatures(rows, PlaneGrid(height, width)).pool(positions)
    assert pooled.positions == len(pooled.rows) <= positions
    down, across = -(-height // pooled.grid.height), -(-width // pooled.grid.width)
    squares = rows.reshape(height, width, 3)
    for index, row in enumerate(pooled.rows):
        y, x = divmod(index, pooled.grid.width)
        square = squares[y * down : (y + 1) * down, x * across : (x + 1) * across]
        np.testing.assert_allclose(row, square.mean((0, 1)))
    assert height * width <= positions or max(down, across) > 1


VIEWS = [[3, 1, 4, 1, 5], [9, 2, 5], [6, 5]]
EVEN = np.array([0.5, 0.5], dtype=np.float32)


def test_a_leaf_of_a_tree_does_not_count():
    p = np.full((3, 4), 0.01, dtype=np.float32)
    p[:, 0] = 0.97  # the target is sure of token 0; a branch predicts 1, and one 0
    q = np.stack([p[:, [1, 0, 2, 3]], p], axis=1)
    outputs = np.array([0, 1, -1])  # root, a node that was expanded, a leaf
    parents = np.array([-1, 0])
    draft = DeviceDraft(np.arange(2), 2, parents, lambda: outputs, branch_probabilities=q[:2])
    for path, counted in (([], 1), ([0], 2), ([0, 1], 2)):
        tally = Tally.of(HOST, 2).after(draft, np.log(p), path)
        assert tally.tokens == counted
        np.testing.assert_allclose(tally.weights(EVEN), [0.0, 1.0])


def test_a_plan_that_is_cut_keeps_its_kind():
    assert Plan(2, nodes=2).within(2) == Plan(2, nodes=2)
    assert Plan(5, nodes=5).within(2) == Plan(2, nodes=2), "a chain"
    assert Plan(5, nodes=20).within(2) == Plan(2, nodes=20), "a tree"
    assert Plan(5).within(2) == Plan(2), "what the drafter was opened for"


@pytest.mark.parametrize("adaptive", [False, True])
def test_views_without_room_get_no_weight_and_none_draft_without_any(adaptive):
    target = ScriptedTarget(vocabulary=11)
    drafter = ScriptedDrafter(3, vocabulary=11, adaptive=adaptive, positions=12)
    target.extend(Segment([VIEWS[0]]))
    drafter.extend([Segment([[*view, 7]]) for view in VIEWS])
    rounds = decode(target, drafter, FixedDraftLength(3), max_tokens=16)
    done = [(each, tuple(drafter.weights)) for each in rounds]
    lengths = [6, 4, 3]
    crowded = 0
    for each, weights in done[:-3]:  # the last ones draft less, for the answer ends
        gamma = min(3, max(12 - min(lengths), 0))
        room = [length + gamma <= 12 for length in lengths]
        assert each.drafted == gamma
        if each.drafted:
            assert sum(weights) == pytest.approx(1, abs=1e-5)
            assert all(fits or not weight for weight, fits in zip(weights, room, strict=True))
            crowded += not all(room)
        lengths = [length + len(each.tokens) for length in lengths]
    assert crowded
    assert not gamma


def test_a_draft_that_was_interrupted_teaches_no_later_answer():
    target, drafter = ScriptedTarget(), ScriptedDrafter(2, vocabulary=11, adaptive=True)
    right, wrong = Segment([[1, 5, 2, 6]]), Segment([[3, 7, 4, 6]])
    target.extend(right)
    drafter.extend([right, wrong])
    drafter.draft(Plan(3), NO_NOISE)
    drafter.rewind(4)
    drafter.commit([], [4], target.verify(None, NO_NOISE))  # of a round that lookup drafted
    drafter.draft(Plan(3), NO_NOISE)
    assert drafter.weights == [0.5, 0.5]
