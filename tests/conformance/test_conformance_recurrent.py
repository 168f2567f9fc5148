"""A target with recurrent layers: drafts change no bit, and every way back is as a cold run."""

import shutil

import numpy as np
import pytest
from test_conformance_exactness import EVERY as TYPES
from test_conformance_exactness import opened

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding import delta_states
from mmspec.decoding.contract import Segment
from mmspec.decoding.delta_states import DeltaMemory
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from mmspec.exactness.probe import find_exact_rows
from mmspec.ground.errors import DraftError, UsageError
from support.conformance_cases import in_turn
from support.exactness_cases import chains, check_same_bits
from support.factory_fit import fit_head
from support.factory_heads import tiny_head
from support.factory_layouts import change_tensors
from support.factory_qwen import STOP_ID, tiny_qwen
from support.sequence_helpers import branches, draft

SIZES = {"key_value_heads": 4, "kinds": "ddad"}


pytestmark = pytest.mark.usefixtures("near")


@pytest.fixture(scope="module")
def path(checkpoints):
    return tiny_qwen("qwen3_5", checkpoints / "recurrent", seed=8, **SIZES)


@pytest.fixture(scope="module")
def engine(backend, path):
    with load(path, path, backend=backend) as loaded:
        yield loaded


def verified(target, draft):
    """The bits of states, logits, keys and values of the last token and a chain."""
    rows = target.fed_rows(HostDraft(draft) if draft else None)
    return [b"".join(part.tobytes() for part in row) for row in zip(*rows, strict=True)]


def alone(target, tokens):
    """The bits of the last token and of each of `tokens`, fed one by one."""
    bits = []
    for token in [*tokens, None]:
        bits += verified(target, [])
        if token is not None:
            target.verify(None, NO_NOISE)
            target.commit((), token)
    return bits


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_chain_has_the_bits_of_its_tokens_alone(path, backend, tmp_path, dtype):
    """Also where queries and keys are so short that what is added to their length counts."""
    copy = shutil.copytree(path, tmp_path / "short")
    change_tensors(copy, _shorter)
    with load(copy, "none", backend=backend, dtype=dtype) as engine:
        target = engine.target.model.open_target(GREEDY, find_exact_rows(engine.target.model))
        target.extend(Segment([[*range(20, 60)]]))
        tokens = [30, 31, 47, 90, 91, 92, 93, 30, 31]
        wide = verified(target, tokens)
        assert wide == verified(target, tokens)
        assert wide == alone(target, tokens)


def _shorter(tensors):
    """A tenth of the queries, keys and values before the convolution."""
    ends = "in_proj_qkv.weight"
    return {name: x * np.float32(0.1 if name.endswith(ends) else 1) for name, x in tensors.items()}


FEW = [("mlx", "4 bits"), ("mlx", "float32"), ("torch", "bfloat16"), ("torch", "int4")]
OTHERS = [pytest.param(*each, marks=pytest.mark.slow) for each in TYPES if each not in FEW]


@pytest.mark.parametrize(("backend", "kind"), [*FEW, *OTHERS], indirect=["backend"])
def test_answers_are_the_same_bits_in_every_type(backend, kind, path, checkpoints):
    some = chains(["M", "lookup"])
    with opened(backend, kind, path, path, checkpoints) as engine:
        [chosen] = some[TYPES.index((backend, kind)) :: len(some)]
        check_same_bits(engine, [chosen], 10)


def test_answers_are_the_same_bits_with_one_border(backend, path, tmp_path, monkeypatch):
    """Second turns, undo and retry; what is lost is fed again as it was fed first."""
    monkeypatch.setattr(delta_states, "MOST_BORDERS", 1)
    draft = tiny_qwen("qwen3_vl", tmp_path / "draft", hidden_size=32, heads=2, layers=2, seed=2)
    with load(path, draft, backend=backend) as engine:
        check_same_bits(engine, chains(["MT", "lookup"])[1::32], 10)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_drafted_token_allocates_at_most_a_megabyte_and_a_half_at_the_sizes_of_9b(
    backend, tmp_path, dtype
):
    """One of its 24 layers."""
    sizes = {"key_heads": 16, "value_heads": 32, "key_dim": 128, "value_dim": 128, "kinds": "da"}
    directory = tiny_qwen("qwen3_5", tmp_path / "layer", **sizes)
    with load(directory, "none", backend=backend, dtype=dtype) as engine:
        target = engine.target.model.open_target(GREEDY)
        target.extend(Segment([[*range(20, 60)]]))
        taken = [_allocated(backend, target, [30] * count) for count in (1, 9)]
    assert 0.9e6 < 24 * (taken[1] - taken[0]) / 8 <= 1.5e6


def _allocated(backend, target, draft):
    """Bytes that a layer's rows of a draft keep in memory."""
    target.verify(HostDraft(draft), NO_NOISE)
    [memory] = target._cache.states._memories.values()
    base, [rows], last = memory._trace
    parts = rows.inputs, *rows.changes, *last[1:]
    if backend == "torch":
        storages = [part.untyped_storage() for part in parts]
        return sum({each.data_ptr(): each.nbytes() for each in storages}.values())
    mx = pytest.importorskip("mlx.core")
    mx.eval(*parts)
    del rows, last, parts
    before = mx.get_active_memory()
    memory.restart(base)
    return before - mx.get_active_memory()


DRAFTERS = ["dflash", "dspark", "eagle3+lookup", "medusa", "lookup"]


@pytest.mark.parametrize(("backend", "kind"), in_turn(DRAFTERS, others=True), indirect=["backend"])
def test_heads_and_lookup_draft_chains_with_the_same_bits(backend, path, checkpoints, kind):
    """Over turns, undo and retry, with images; some of their tokens are right."""
    head = kind.removesuffix("+lookup")
    draft = checkpoints / f"recurrent {head}"
    if kind == "lookup":
        draft = "none"
    elif not draft.exists():
        fit_head(tiny_head(draft, head, seed=2), path)
    some = chains([kind])[DRAFTERS.index(kind) :: 16]
    with load(path, draft, backend=backend, dtype="bfloat16") as engine:
        assert draft == "none" or engine.head.kind == head
        check_same_bits(engine, some, 10)
        with pytest.raises(UsageError, match="recurrent layers, whose state follows one path"):
            engine.chat(Options(drafting=kind, tree=Tree()))


def test_after_many_plain_rounds_a_draft_does_not_compute_their_tokens_one_by_one(
    engine, monkeypatch
):
    """And drafts what one drafts that has read them in one piece."""
    prompt, tokens = [*range(20, 60)], [30 + 7 * n % 60 for n in range(200)]
    drafter, other = (
        branches(engine.draft.model, [Segment([ids])]) for ids in (prompt, prompt + tokens)
    )
    for token in tokens:
        drafter.commit([], [token])
    follow, sizes = DeltaMemory.follow, []
    monkeypatch.setattr(
        DeltaMemory,
        "follow",
        lambda self, rows, last: sizes.append(len(rows.changes.keys)) or follow(self, rows, last),
    )
    assert draft(drafter, 4).ids.tolist() == draft(other, 4).ids.tolist()
    assert max(sizes) == 1


def test_trees_and_several_views_are_refused_with_the_reason(engine):
    with pytest.raises(UsageError, match="recurrent layers, whose state follows one path"):
        engine.chat(Options(tree=Tree()))
    for several in (Options(drafting="MT"), Options(adaptive=True)):
        with pytest.raises(UsageError, match="keeps the state of one view"):
            engine.chat(several)
    target = engine.target.model.open_target(GREEDY)
    target.extend(Segment([[20, 21]]))
    with pytest.raises(DraftError, match="a chain alone"):
        target.verify(HostDraft([30, 31], [-1, -1]), NO_NOISE)


def test_a_turn_after_another_feeds_its_own_tokens_alone(engine, monkeypatch):
    assert engine.target.stop == {STOP_ID, 0}  # files name the end of a turn and that of a text
    chat = engine.chat(Options(drafting="M", gamma=3, max_new_tokens=9))
    chat.reply("Which shapes are there in the picture?")
    target = chat._session.target
    fed, feed = [], type(target).embed_columns
    monkeypatch.setattr(
        type(target), "embed_columns", lambda self, *at: fed.append(at) or feed(self, *at)
    )
    length = target.length
    chat.reply("And now?")
    assert min(start for start, _ in fed) >= length - 2
    list(chat.retry())
    assert min(start for start, _ in fed) >= length - 2
