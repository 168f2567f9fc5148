"""The same bits whatever drafts, in every number type, and a probe that sees where it fails.

    python tests/exactness.py --help

makes the whole table that the documentation shows.
"""

import importlib
from collections.abc import Callable
from typing import Any

import pytest
from exactness import KINDS_OF

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.chat.plugins import load_backend
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


def bits_by_rows(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let a product give other bits if it has more than one row."""
    _after_mlp(monkeypatch, backend, lambda x, out: out * (1.01 if x.shape[-2] > 1 else 1))


def bits_of_one_and_of_many(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let a product of one row, or of more than 16, give other bits than one between."""
    _after_mlp(monkeypatch, backend, lambda x, out: out * (1 if 1 < x.shape[-2] <= 16 else 1.01))


def bits_by_company(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let a product give other bits if the other rows hold something else."""
    _after_mlp(monkeypatch, backend, lambda x, out: out + 0.01 * x.sum())


def logits_by_rows(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let the output matrix give other bits if it has more than one row."""
    target = _named(backend, "sequence.target", "Target")
    original = target.project

    def project(self: Any, states: Any) -> Any:
        return original(self, states) * (1.01 if states.shape[0] > 1 else 1)

    monkeypatch.setattr(target, "project", project)


def far_attention_by_rows(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let attention give other bits if many rows read many columns."""

    def is_faulty(queries: Any, keys: Any, places: Any) -> bool:
        return bool(queries.shape[2] > WIDE and keys.shape[1] >= FAR)

    _after_attention(monkeypatch, backend, is_faulty)


def attention_of_trees(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let attention give a tree's rows other bits in the second block of keys alone."""

    def is_faulty(queries: Any, keys: Any, places: Any) -> bool:
        return places.tree is not None and bool(keys.shape[1] == 2 * BLOCK)

    _after_attention(monkeypatch, backend, is_faulty)


def states_by_rows(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Let hidden states differ that no logit shows, if there is more than one row."""
    target = _named(backend, "sequence.target", "Target")
    states, project = target.forward, target.project

    def changed(self: Any, outputs: Any, start: int) -> Any:
        found = states(self, outputs, start)
        return found + (64 if found.shape[0] > 1 else 0)

    def restored(self: Any, found: Any) -> Any:
        return project(self, found - (64 if found.shape[0] > 1 else 0))

    monkeypatch.setattr(target, "forward", changed)
    monkeypatch.setattr(target, "project", restored)


def _named(backend: str, module: str, kind: str) -> Any:
    """A class of a backend, such as TorchTarget."""
    return getattr(importlib.import_module(f"mmspec_{backend}.{module}"), backend.title() + kind)


def _after_attention(
    monkeypatch: pytest.MonkeyPatch, backend: str, is_faulty: Callable[[Any, Any, Any], bool]
) -> None:
    attention = importlib.import_module(f"mmspec_{backend}.network.attention")
    original = attention.attend

    def attend(xp: Any, queries: Any, keys: Any, values: Any, places: Any) -> Any:
        attended = original(xp, queries, keys, values, places)
        return attended * 1.05 if is_faulty(queries, keys, places) else attended

    monkeypatch.setattr(attention, "attend", attend)


def _after_mlp(
    monkeypatch: pytest.MonkeyPatch, backend: str, change: Callable[[Any, Any], Any]
) -> None:
    mlp = importlib.import_module(f"mmspec_{backend}.network.decoder").MLP
    original = mlp.__call__
    monkeypatch.setattr(mlp, "__call__", lambda self, x, *rest: change(x, original(self, x, *rest)))


LENGTH = 12
CANDIDATES = probe.CANDIDATES
EVERY = [(name, kind) for name, kinds in KINDS_OF.items() for kind in kinds]


def opened(backend, kind, target, draft, checkpoints):
    """An engine in a number type; for `4 bits` and `8 bits` MLX's conversion drafts, or a head."""
    if not kind.endswith(" bits"):
        named = {"quantize": kind} if kind.startswith("int") else {"dtype": kind}
        return load(str(target), str(draft), backend=backend, **named)
    place = checkpoints / f"{kind} of {target.name}"
    if not place.exists():
        load_backend("mlx").quantize(target, place, bits=int(kind.split()[0]), group_size=64)
    return load(str(place), str(draft if is_head(draft) else place), backend=backend)


@pytest.fixture(autouse=True)
def nearer(near):
    """Every test here."""


@pytest.mark.parametrize(("backend", "kind"), EVERY, indirect=["backend"])
def test_answers_are_the_same_bits(backend, kind, pair_paths, checkpoints):
    engine = opened(backend, kind, *pair_paths, checkpoints)
    first = 5 * EVERY.index((backend, kind))
    check_same_bits(engine, cases(["M", "MTC", "lookup"])[first::50], LENGTH)


@pytest.mark.parametrize("variant", ["msd", "hydra", "eagle3 mapped", "dspark"])
def test_answers_with_heads_are_the_same_bits(backend, pair_paths, head_paths, variant):
    engine = load(str(pair_paths[0]), str(head_paths[variant]), backend=backend, dtype="bfloat16")
    check_same_bits(engine, cases([engine.head.kind])[::20], LENGTH)


BLOCKS = [
    pytest.param(*each, ("dflash", "dspark mapped")[n // 2 % 2], marks=[pytest.mark.slow] * (n % 2))
    for n, each in enumerate(EVERY)
]


@pytest.mark.parametrize(("backend", "kind", "variant"), BLOCKS, indirect=["backend"])
def test_answers_with_block_drafters_are_the_same_bits(
    backend, kind, variant, pair_paths, head_paths, checkpoints
):
    engine = opened(backend, kind, pair_paths[0], head_paths[variant], checkpoints)
    some = cases([engine.head.kind])[EVERY.index((backend, kind)) :: 20]
    check_same_bits(engine, some, LENGTH)


def test_a_saved_conversation_continues_with_the_same_bits(backend, pair_paths):
    """The keys of its answers are those that decoding wrote, not those of a prefill."""
    engine = load(*map(str, pair_paths), backend=backend, dtype="bfloat16")
    chat = engine.chat(Options(exact="on", max_new_tokens=LENGTH, gamma=3))
    for number in range(3):
        chat.reply(f"What is it now, {number}?", PICTURES[number : number + 1])
    again = engine.chat(chat.options, copied(chat))
    assert logits(asked(again)).tobytes() == logits(asked(chat)).tobytes()


def test_a_head_that_joins_later_changes_no_bit(backend, pair_paths, head_paths):
    engine = load(str(pair_paths[0]), str(head_paths["msd"]), backend=backend, dtype="bfloat16")
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
    model = load(str(pair_paths[0]), backend=backend, draft="none", dtype="bfloat16").target.model
    assert rows_are_exact(model, ExactRows(8, 64))


FAULTS = [bits_by_rows, bits_by_company, logits_by_rows, states_by_rows]


@pytest.mark.parametrize(("backend", "fault"), in_turn(FAULTS), indirect=["backend"])
def test_the_probe_sees_a_product_that_depends_on_other_rows(backend, engine, monkeypatch, fault):
    model = engine.target.model
    rows = ExactRows(8, 8)
    assert rows_are_exact(model, rows)
    fault(monkeypatch, backend)
    exact = [rows_are_exact(model, each) for each in (ExactRows(1, 64), rows)]
    # A fixed number of rows hides a kernel that depends on their number; nothing hides the other.
    assert exact == [False, fault is not bits_by_company]


def test_the_probe_finds_few_rows_where_neither_one_nor_many_are_exact(
    backend, engine, monkeypatch
):
    monkeypatch.setattr(probe, "CANDIDATES", CANDIDATES)
    bits_of_one_and_of_many(monkeypatch, backend)
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
    far_attention_by_rows(monkeypatch, backend)
    # With 8 rows at once every row goes the faulty way, whatever stands beside it.
    assert rows_are_exact(model, rows) is (rows.multiple == 8)


def test_the_probe_sees_trees_of_other_bits_in_any_block_and_those_that_are_no_chain(
    backend, engine, monkeypatch
):
    """The last: nodes that see the columns before them, whatever their ancestors are."""
    model = engine.target.model
    with monkeypatch.context() as patch:
        attention_of_trees(patch, backend)
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
