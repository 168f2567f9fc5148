"""The same bits whatever drafts, in every number type, and a probe that sees where it fails.

    python tests/exactness.py --help

makes the whole table that the documentation shows.
"""

from pkgutil import resolve_name

import pytest
from exactness import KINDS_OF, in_bits, options_of

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.checkpoints.head_config import is_head
from mmspec.decoding import block_attention
from mmspec.decoding.block_attention import BLOCK
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import GREEDY
from mmspec.exactness import probe
from mmspec.exactness.probe import find_exact_rows, rows_are_exact
from support.conformance_cases import PICTURES, copied, in_turn, logits
from support.exactness_cases import cases, check_same_bits

WIDE, FAR = 4, 4 * BLOCK
"""Rows and columns beyond which a faulty kernel of attention takes another way."""


MLP = "mmspec_{}.network.decoder.MLP.__call__"
ATTEND = "mmspec_{}.network.attention.attend"
FORWARD = "mmspec_{}.sequence.target.{}Target._forward"
PROJECT = "mmspec_{}.sequence.target.{}Target.project"
"""Functions in which a backend computes, by its name and its title."""


def faulty(monkeypatch, backend, place, fault):
    """Let a function of a backend be `fault`, which is given the sound one and the arguments."""
    path = place.format(backend, backend.title())
    sound = resolve_name(path)
    monkeypatch.setattr(path, lambda *given: fault(sound, *given))


def bits_by_rows(call, mlp, x, *rest):
    """A product gives other bits if it has more than one row."""
    return call(mlp, x, *rest) * (1.01 if x.shape[-2] > 1 else 1)


def bits_of_one_and_of_many(call, mlp, x, *rest):
    """A product of one row, or of more than 16, gives other bits than one between."""
    return call(mlp, x, *rest) * (1 if 1 < x.shape[-2] <= 16 else 1.01)


def bits_by_company(call, mlp, x, *rest):
    """A product gives other bits if the other rows hold something else."""
    return call(mlp, x, *rest) + 0.01 * x.sum()


def logits_by_rows(call, target, states):
    """The output matrix gives other bits if it has more than one row."""
    return call(target, states) * (1.01 if states.shape[0] > 1 else 1)


def far_attention_by_rows(call, xp, queries, keys, *rest):
    """Attention gives other bits if many rows read many columns."""
    is_faulty = queries.shape[2] > WIDE and keys.shape[1] >= FAR
    return call(xp, queries, keys, *rest) * (1.05 if is_faulty else 1)


def attention_of_trees(call, xp, queries, keys, values, places):
    """Attention gives a tree's rows other bits in the second block of keys alone."""
    is_faulty = places.tree is not None and keys.shape[1] == 2 * BLOCK
    return call(xp, queries, keys, values, places) * (1.05 if is_faulty else 1)


def states_by_rows(call, target, x, columns):
    """Hidden states differ if there is more than one row, which `hidden` lets no logit show."""
    found = call(target, x, columns)
    return found + (64 if found.shape[0] > 1 else 0)


def hidden(call, target, states):
    return call(target, states - (64 if states.shape[0] > 1 else 0))


LENGTH = 12
CANDIDATES = probe.CANDIDATES
EVERY = [(name, kind) for name, kinds in KINDS_OF.items() for kind in kinds]


def opened(backend, kind, target, draft, checkpoints):
    """An engine in a number type; for `4 bits` and `8 bits` MLX's conversion drafts, or a head."""
    place = in_bits(target, kind, checkpoints / f"{kind} of {target.name}")
    draft = draft if place == target or is_head(draft) else place
    named = {"quantize": kind} if kind.startswith("int") else options_of(kind)
    return load(place, draft, backend=backend, **named)


@pytest.fixture(autouse=True)
def nearer(near):
    """Every test here."""


@pytest.mark.parametrize(("backend", "kind"), EVERY, indirect=["backend"])
def test_answers_are_the_same_bits(backend, kind, pair_paths, checkpoints):
    engine = opened(backend, kind, *pair_paths, checkpoints)
    first = 5 * EVERY.index((backend, kind))
    check_same_bits(engine, cases(["M", "MTC", "lookup"])[first::50], LENGTH)


VARIANTS = ["msd", "dflash", "hydra", "dspark mapped", "eagle3 mapped"]
HEADED = [(*each, VARIANTS[number % 5]) for number, each in enumerate(EVERY)]


@pytest.mark.parametrize(("backend", "kind", "variant"), HEADED, indirect=["backend"])
def test_answers_with_heads_are_the_same_bits(
    backend, kind, variant, pair_paths, head_paths, checkpoints
):
    """Every number type, and every sort of head on both backends."""
    engine = opened(backend, kind, pair_paths[0], head_paths[variant], checkpoints)
    some = cases([engine.head.kind])[EVERY.index((backend, kind)) :: 20]
    check_same_bits(engine, some, LENGTH)


def test_a_saved_conversation_continues_with_the_same_bits(backend, pair_paths):
    """The keys of its answers are those that decoding wrote, not those of a prefill."""
    engine = load(*pair_paths, backend=backend, dtype="bfloat16")
    chat = engine.chat(Options(exact="on", max_new_tokens=LENGTH, gamma=3))
    for number in range(3):
        chat.reply(f"What is it now, {number}?", PICTURES[number : number + 1])
    again = engine.chat(chat.options, copied(chat))
    assert logits(asked(again)).tobytes() == logits(asked(chat)).tobytes()


def test_a_head_that_joins_later_changes_no_bit(backend, pair_paths, head_paths):
    engine = load(pair_paths[0], head_paths["msd"], backend=backend, dtype="bfloat16")
    plain, drafted = (engine.chat(Options(exact="on", max_new_tokens=LENGTH)) for _ in range(2))
    for chat in (plain, drafted):
        chat.speculate = False
        chat.reply("Where is the bar?", PICTURES[:1])
    drafted.speculate = True
    assert logits(asked(drafted)).tobytes() == logits(asked(plain)).tobytes()


def asked(chat):
    """The chat after one more question."""
    chat.reply("And the circle?")
    return chat


def test_kernels_give_a_row_the_same_bits_beside_seven_and_beside_sixty_three(backend, pair_paths):
    model = load(pair_paths[0], backend=backend, draft="none", dtype="bfloat16").target.model
    assert rows_are_exact(model, ExactRows(8, 64))


FAULTS = {
    "by rows": [(MLP, bits_by_rows)],
    "by company": [(MLP, bits_by_company)],
    "logits": [(PROJECT, logits_by_rows)],
    "states": [(FORWARD, states_by_rows), (PROJECT, hidden)],
}


@pytest.mark.parametrize(("backend", "fault"), in_turn(FAULTS), indirect=["backend"])
def test_the_probe_sees_a_product_that_depends_on_other_rows(backend, engine, monkeypatch, fault):
    model = engine.target.model
    rows = ExactRows(8, 8)
    assert rows_are_exact(model, rows)
    for each in FAULTS[fault]:
        faulty(monkeypatch, backend, *each)
    exact = [rows_are_exact(model, each) for each in (ExactRows(1, 64), rows)]
    # A fixed number of rows hides a kernel that depends on their number; nothing hides the other.
    assert exact == [False, fault != "by company"]


def test_the_probe_finds_few_rows_where_neither_one_nor_many_are_exact(
    backend, engine, monkeypatch
):
    monkeypatch.setattr(probe, "CANDIDATES", CANDIDATES)
    faulty(monkeypatch, backend, MLP, bits_of_one_and_of_many)
    rows = find_exact_rows(engine.target.model)
    assert rows.most in (8, 16)  # some BLAS libraries have other bits at 16 rows, too
    assert 1 < rows.multiple <= 4


FEW = [ExactRows(8, 8), ExactRows(4, 8)]


@pytest.mark.parametrize(("backend", "rows"), in_turn(FEW), indirect=["backend"])
def test_the_probe_sees_attention_that_depends_on_other_rows_far_from_the_start(
    backend, engine, monkeypatch, rows
):
    model = engine.target.model
    monkeypatch.setattr(probe, "POSITIONS", 600)
    if not rows_are_exact(model, rows):
        pytest.skip(f"this machine's kernels are not exact with {rows.multiple} rows anyway")
    faulty(monkeypatch, backend, ATTEND, far_attention_by_rows)
    # With 8 rows at once every row goes the faulty way, whatever stands beside it.
    assert rows_are_exact(model, rows) is (rows.multiple == 8)


def test_the_probe_sees_trees_of_other_bits_in_any_block_and_those_that_are_no_chain(
    backend, engine, monkeypatch
):
    """The last: nodes that see the columns before them, whatever their ancestors are."""
    model = engine.target.model
    with monkeypatch.context() as patch:
        faulty(patch, backend, ATTEND, attention_of_trees)
        for rows in (ExactRows(1, 64), ExactRows(8, 8), ExactRows(16, 16)):
            assert not rows_are_exact(model, rows)

    def columns(xp, along, depths):
        return xp.broadcast_to(depths, (len(along), len(depths)))

    monkeypatch.setattr(block_attention, "_node_columns", columns)
    assert not rows_are_exact(model, ExactRows(8, 8))


def test_the_probe_reaches_every_block(engine, monkeypatch):
    monkeypatch.setattr(probe, "POSITIONS", 8192)
    model = engine.target.model
    target = type(model.open_target(GREEDY))
    fed, original = set(), target.fed_rows

    def recorded(self, draft):
        size = 1 + (draft.size if draft else 0)
        fed.update((size, self.length - 1 + row) for row in range(size))
        return original(self, draft)

    monkeypatch.setattr(target, "fed_rows", recorded)
    assert rows_are_exact(model, ExactRows(8, 8))
    borders = range(BLOCK, model.config.text.max_position_embeddings - 16, BLOCK)
    assert len(borders) > 10
    for border in borders:
        for size in (1, 4):  # alone and together, on both sides
            assert {(size, border - 1), (size, border)} <= fed
    for border in (borders[7], borders[-1]):  # 512, and the last with room
        assert {(8, border - 1), (8, border)} <= fed
