"""Heads through conversations: never a wrong token, never a stale state, equal on all backends."""

from collections import Counter
from dataclasses import replace
from importlib import import_module
from itertools import pairwise

import pytest
from conformance_cases import (
    HEADS,
    PICTURES,
    Case,
    check_like_cold,
    copied,
    plainly,
    questions,
    replies,
)

from factory_heads import published, tiny_head
from mmspec.adaptive import Adaptation
from mmspec.engine import load
from mmspec.errors import CheckpointError, UsageError
from mmspec.options import Options
from mmspec.sampling import Sampling
from mmspec.tree import Tree

TREES = {"chain": None, "dynamic": Tree((), 3, 8), "static": Tree((3, 2, 1), nodes=9)}
FIRST = ("What is in the picture?", (PICTURES[0],))
SECOND = ("How many shapes are there?", (PICTURES[1], PICTURES[2]))
THIRD = ("Which bar is the tallest?", ())


@pytest.fixture(scope="session", params=HEADS)
def engine(backend, headed, request):
    """Every head on every backend."""
    return headed[backend, request.param]


def short(**named):
    return Options(**{"gamma": 3, "max_new_tokens": 10} | named)


def test_a_head_is_recognised_and_drafts_by_default(engine):
    chat = engine.chat(short())
    chat.reply(*FIRST)
    assert engine.draft is None
    assert chat.answer.drafting.word == engine.head.kind == engine.head.head.config.kind
    assert chat.answer.statistics.drafted


def test_speculative_equals_plain(engine):
    """No image, one, two and five; a second turn; what is accepted is counted over all."""
    accepted = 0
    cases = [(0, 2, "chain"), (1, 1, "dynamic"), (2, 2, "chain"), (5, 2, "static"), (5, 1, "chain")]
    for seed, (images, turns, tree) in enumerate(cases):
        options = short(gamma=1 + seed, max_new_tokens=12, tree=TREES[tree])
        asked = list(questions(Case("", 0, images, turns), seed))
        chat = engine.chat(options)
        assert replies(chat, asked) == replies(
            engine.chat(plainly(replace(options, tree=None))), asked
        )
        accepted += chat.answer.statistics.accepted
    # A random Medusa guesses worse than a line through the states does.
    assert accepted or engine.head.kind == "medusa"


@pytest.mark.parametrize("tree", ["chain", "dynamic"])
def test_rounds_after_a_look_are_plain_and_the_answer_is_the_same(engine, tree):
    """A threshold that the median round reaches: some are skipped, and drafts go on after them."""
    options = short(max_new_tokens=24, tree=TREES[tree])
    watched = engine.chat(replace(options, skip_vision=1.0))
    watched.reply(*FIRST)
    looks = sorted(each.seen for each in watched.answer.rounds)
    chat = engine.chat(replace(options, skip_vision=looks[len(looks) // 2]))
    plain = engine.chat(plainly(replace(options, tree=None)))
    assert replies(chat, [SECOND, FIRST]) == replies(plain, [SECOND, FIRST])
    rounds = chat.answer.rounds
    for before, each in pairwise(rounds[:-1]):
        assert (each.drafted == 0) == (before.seen >= chat.options.skip_vision)
    assert 0 in [each.drafted for each in rounds]
    assert any(each.drafted for each in rounds[1:])


def test_undo_retry_interrupts_and_pauses_are_like_cold_runs(engine):
    trees = TREES["static"] if engine.head.kind in ("msd", "medusa") else None
    chat = engine.chat(short(max_new_tokens=6, tree=trees))
    check_like_cold(chat, FIRST)
    check_like_cold(chat, SECOND)
    for _ in chat.retry():
        pass
    for events in (2, 4):
        answering = chat.ask(*THIRD)
        for _ in zip(range(events), answering, strict=False):
            pass
        answering.close()
    check_like_cold(chat, THIRD)
    chat.speculate = False
    check_like_cold(chat, FIRST)
    chat.speculate = True
    chat.conversation.undo()
    check_like_cold(chat, (FIRST[0], (PICTURES[3],)))
    assert proposals(chat) == proposals(again(chat))


def again(chat):
    """A cold chat that has heard and said the same."""
    fresh = chat.engine.chat(chat.options, copied(chat))
    fresh.conversation.reopen()
    question = chat.conversation.turns[-1].question
    fresh.conversation.undo()
    for _ in fresh.send(question):
        pass
    assert fresh.answer.token_ids == chat.answer.token_ids
    return fresh


def proposals(chat):
    """What the head drafts where a chat stands, read by verifying."""
    target, drafter = chat._session.target, chat._side.drafter
    assert target.length == drafter.length
    return target.verify(drafter.draft(4, [1.0], ()), ()).drafted


class Fault(BaseException):
    """Raised where an interrupt would be."""


@pytest.mark.parametrize(("place", "after"), [("drafter", True), ("layer", False)])
def test_a_fault_anywhere_leaves_nothing(backend, headed, place, after, monkeypatch):
    engine = headed[backend, "flash"]
    options, count = short(max_new_tokens=5, tree=TREES["static"]), Counter()
    path, names = FAULTS[place]
    owner = getattr(import_module(path[0].format(backend)), path[1])
    for name in names:
        original = getattr(owner, name)

        def breaking(*given, _original=original, **named):
            count["calls"] += 1
            if count["calls"] == count["break"] and not after:
                raise Fault
            result = _original(*given, **named)
            if count["calls"] == count["break"]:
                raise Fault
            return result

        monkeypatch.setattr(owner, name, breaking)
    chat = engine.chat(options)
    chat.reply(*FIRST)
    count["calls"] = 0
    chat.reply(*SECOND)
    total = count["calls"]
    assert total > 3
    for call in range(1, total + 1, 3):
        chat = engine.chat(options)
        chat.reply(*FIRST)
        count["calls"], count["break"] = 0, call
        with pytest.raises(Fault):
            chat.reply(*SECOND)
        count["break"] = -1
        check_like_cold(chat, THIRD)


FAULTS = {
    "drafter": (("mmspec.heads.drafter", "HeadDrafter"), ("extend", "rewind", "draft", "commit")),
    "layer": (("mmspec_{}.llama", "Decoder"), ("_attend",)),
}


READS = {
    "torch": ("torch", "Tensor", ["tolist", "item", "cpu", "numpy", "__bool__", "__int__"]),
    "mlx": ("mmspec_mlx", "host", ["integers", "floats", "float32", "raw"]),
}


def test_a_round_reads_from_the_device_once(engine, backend, monkeypatch):
    chat = engine.chat(short(tree=TREES["dynamic"] if engine.head.kind == "msd" else None))
    chat.reply(*FIRST)
    reads = Counter()
    module, owner, names = READS[backend]
    place = getattr(import_module(module), owner)
    for name in names:
        original = getattr(place, name)

        def spy(*given, _original=original, **named):
            reads["all"] += 1
            return _original(*given, **named)

        monkeypatch.setattr(place, name, spy)
    rounds = chat._session.decode(gamma=3, max_tokens=10, stop=(), seed=None)
    counted = [reads["all"] for _ in rounds]
    assert counted == list(range(1, len(counted) + 1))


@pytest.mark.parametrize("variant", HEADS)
def test_the_same_seed_gives_the_same_rounds_on_every_backend(backends, headed, variant):
    for temperature, tree in ((0.0, "dynamic"), (1.0, "chain"), (1.0, "dynamic")):
        options = short(sampling=Sampling(temperature), tree=TREES[tree], seed=3)
        asked = list(questions(Case("", 0, 2, 2), 4))
        told = []
        for name in backends:
            chat = headed[name, variant].chat(options)
            told.append((replies(chat, asked), [each.accepted for each in chat.answer.rounds]))
        assert all(other == told[0] for other in told)


def test_mlx_takes_quantized_targets(mlx_path, checkpoints, backend):
    """The head reads what a 4-bit target says, and stays exact."""
    head = tiny_head(checkpoints / f"head of four bits {backend}", "msd", seed=2)
    engine = load(str(mlx_path), str(head), backend=backend)
    chat, plain = engine.chat(short()), engine.chat(plainly(short()))
    assert replies(chat, [FIRST, THIRD]) == replies(plain, [FIRST, THIRD])


# What cannot be had


def test_adaptive_weights_are_refused_beside_a_head(engine):
    with pytest.raises(UsageError, match="--adaptive weighs views of a draft model"):
        engine.chat(short(adaptive=Adaptation())).reply("hello")


def test_a_drafting_that_the_head_does_not_do_is_refused(engine):
    for word in ("MT", "eagle" if engine.head.kind != "eagle" else "msd"):
        with pytest.raises(UsageError, match=f"is a {engine.head.kind} head: use"):
            engine.chat(short(drafting=word))
    for word in ("none", "ngram", engine.head.kind):
        engine.chat(short(drafting=word))
    with pytest.raises(UsageError, match="--weights"):
        short(drafting=engine.head.kind, weights=(1.0,))


def test_a_heads_kind_without_a_head_is_refused(engines, backend):
    with pytest.raises(UsageError, match="needs a head"):
        engines[backend].chat(short(drafting="msd"))


def test_published_heads_load_on_every_backend(backend, pair_paths, tmp_path):
    engine = load(str(pair_paths[0]), str(published(tmp_path / "a", "llava")), backend=backend)
    chat = engine.chat(short())
    assert engine.head.kind == "msd"
    chat.reply(*FIRST)
    pickled = published(tmp_path / "b", "llama", pickled=True)
    if backend == "torch":
        assert load(str(pair_paths[0]), str(pickled), backend=backend).head.kind == "eagle"
    else:
        with pytest.raises(CheckpointError, match=r"run python -m mmspec_torch\.heads\.convert"):
            load(str(pair_paths[0]), str(pickled), backend=backend)


def test_a_head_past_its_positions_drafts_no_more(backend, pair_paths, checkpoints):
    head = checkpoints / f"short head {backend}"
    tiny_head(head, "msd", max_position_embeddings=40)
    engine = load(str(pair_paths[0]), str(head), backend=backend)
    chat = engine.chat(short(max_new_tokens=8))
    assert replies(chat, [THIRD]) == replies(engine.chat(plainly(short(max_new_tokens=8))), [THIRD])
    chat.reply(*SECOND)
    assert chat.answer.statistics.drafted == 0
