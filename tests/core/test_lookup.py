"""Lookup: probabilities, trees, the loop, and texts beside a conversation."""

import stat
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mmspec.chat import memory as module
from mmspec.chat.engine import load
from mmspec.chat.memory import HEADER, IDS, MOST_TOKENS, Memory
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import HostDraft, Plan
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.noise import NO_NOISE, Noise, exponentials
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from mmspec.drafters.lookup import DOUBT, PRESENT, SHORTEST, KnownText, LookupDrafter, successors
from mmspec.drafters.text_index import TextIndex
from mmspec.ground.errors import CheckpointError
from mmspec.ground.tokens import NO_TOKEN
from support.scripted import ScriptedFeatures
from support.scripted_engine import OPTIONS, A, check

DYNAMIC = Tree(nodes=8)


def drafter_of(*parts, tree=None, sampling=GREEDY):
    drafter = LookupDrafter(sampling, tree)
    drafter.extend([Segment(parts)])
    return drafter


def proposed(drafter, gamma=5):
    draft = drafter.draft(Plan(gamma), NO_NOISE)
    return draft and (draft.tokens, draft.parents)


IMAGE = ScriptedFeatures("a")
CHAINS = {
    "empty": ([[]], None),
    "one": ([[1]], None),
    "new": ([[1, 2, 3]], None),
    "before": ([[1, 2, 9, 8, 7, 1, 2]], [9, 8, 7, 1]),
    "longest": ([[0, 1, 2, 9, 3, 1, 2, 8, 0, 1, 2]], [9, 3, 1, 2, 8]),
    "run": ([[4, 4, 4, 4]], [4, 4, 4]),
    "new, too": ([[1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6]], [0]),
    "most": ([[1, 5, 8, 1, 5, 9, 1, 6, 1]], [5, 9]),
    "image follows": ([[1, 2], IMAGE, [1, 2]], None),
    "cut by image": ([[1, 2, 7], IMAGE, [1, 2]], [7]),
    "image last": ([[1], IMAGE, [9, 1], IMAGE], None),
    "before images": ([[1, 2, 7, 8], IMAGE, [3], IMAGE, [1, 2]], [7, 8]),
}


@pytest.mark.parametrize(("parts", "expected"), CHAINS.values(), ids=CHAINS)
def test_a_chain_is_the_likeliest_continuation_without_images(parts, expected):
    assert proposed(drafter_of(*parts)) == (expected and (expected, None))


@pytest.mark.parametrize(("count", "least", "most"), [(8, 0.6, 0.7), (20, 0.97, 0.98)])
def test_other_texts_count_only_where_the_conversation_says_little(count, least, most):
    other, same = TextIndex(), [1, 2, 3, 4, 5, 6, 7, 8]
    other.extend([*same, 0] * 40)
    drafter = LookupDrafter(GREEDY, Tree(nodes=1), [KnownText(other, 1.0)])
    drafter.extend([Segment(([*same, 9] * count + same,))])
    pays = Mock(return_value=1)
    assert drafter.draft(Plan(1, pays=pays), NO_NOISE).tokens == [9]
    [chance] = pays.call_args.args[0]
    assert least < chance < most


def test_a_tree_has_what_else_followed():
    tokens = [3, 1, 2, 7, 8, 4, 1, 2, 9, 8, 5, 1, 2]
    assert proposed(drafter_of(tokens, tree=DYNAMIC), 2) == ([9, 7, 8, 8], [-1, -1, 0, 1])
    assert proposed(drafter_of(tokens, tree=Tree((2, 1))), 5) == ([9, 7, 8, 8], [-1, -1, 0, 1])
    assert proposed(drafter_of(tokens, tree=Tree((1, 2)))) == ([9, 8], None)
    small = drafter_of(tokens, tree=DYNAMIC).draft(Plan(2, nodes=3), NO_NOISE)
    assert small == HostDraft([9, 7, 8], [-1, -1, 0])
    assert drafter_of(tokens, tree=DYNAMIC).draft(Plan(2, nodes=2), NO_NOISE).parents is None


LEVELS = some.lists(
    some.lists(
        some.tuples(some.sampled_from([PRESENT, 1.0]), some.lists(some.integers(0, 4), min_size=1)),
        min_size=1,
    ),
    max_size=4,
)


@settings(max_examples=40)
@given(LEVELS, some.integers(0, 2))
def test_probabilities_are_those_of_a_hierarchical_dirichlet_model(groups, shortest):
    """By MacKay and Peto's recursion from the shortest context on, in exact fractions."""
    levels = [(size, group) for size, group in enumerate(groups, shortest)][::-1]
    expected, places = dict.fromkeys(range(5), Fraction(0)), [*chain(*groups)]
    for size, group in reversed(levels):
        doubt = Fraction(DOUBT) / (size + Fraction(SHORTEST))
        total = sum(Fraction(weight) for weight, _ in places)
        expected = {
            token: (sum(Fraction(w) for w, then in places if then[0] == token) + doubt * before)
            / (total + doubt)
            for token, before in expected.items()
        }
        places = places[len(group) :]
    chances, below = successors(levels, 0)
    assert set(chances) == {then[0] for _, group in levels for _, then in group}
    for token, chance in chances.items():
        assert chance == pytest.approx(float(expected[token]))
    assert sum(chances.values()) <= 1
    for token, found in below.items():
        longer = [(n, [p for p in group if p[1][0] == token and p[1][1:]]) for n, group in levels]
        assert found == [(n, group) for n, group in longer if group]


@settings(max_examples=60)
@given(
    some.lists(some.integers(0, 3), max_size=60), some.integers(1, 9), some.sampled_from([0.0, 0.9])
)
def test_a_tree_is_well_formed_and_within_its_bounds(tokens, gamma, temperature):
    sampling = Sampling(temperature)
    for tree, plan in [(Tree(nodes=12, width=2), Plan(gamma)), (Tree((3, 2)), Plan(gamma, 4))]:
        draft = drafter_of(tokens, tree=tree, sampling=sampling).draft(plan, Noise(3, len(tokens)))
        if draft is None:
            continue
        parents = draft.parents or [*range(-1, draft.size - 1)]
        assert draft.size <= max(gamma, plan.nodes or tree.nodes)
        assert draft.depth <= gamma
        assert all(-1 <= parent < node for node, parent in enumerate(parents))
        children = set(zip(parents, draft.tokens, strict=True))
        assert len(children) == draft.size
        assert max(parents.count(parent) for parent in parents) <= (3 if tree.branching else 2)


def test_children_are_ordered_by_the_noise_that_the_target_draws_under():
    tokens = [1, 2, 1, 3, 1, 4, 1, 5, 1]
    for position in range(20):
        noise = Noise(7, position)
        draft = drafter_of(tokens, tree=Tree((4,)), sampling=Sampling(1.0)).draft(Plan(1), noise)
        ids = np.array([2, 3, 4, 5], np.uint32)
        draws = exponentials(np, HOST.keys(noise, 1), ids)[0]
        by_noise = ids[np.argsort(draws)].tolist()
        assert draft.tokens == by_noise[: draft.size]


LOOKUP = replace(OPTIONS, drafting="lookup", tree=Tree(nodes=12), max_new_tokens=24)


def tokens_of(memory):
    index = memory.text.index
    return index.tokens[len(index.tokens) - index.length :].tolist()


def test_turns_are_there_again_and_only_their_owner_can_read_them(tmp_path):
    file = tmp_path / "lookup" / "a.ids"
    first, second = Memory(10, file), Memory(10, file)
    assert tokens_of(first) == []
    first.add([1, 2])
    second.add([3])
    first.save()
    first.save()
    second.save()
    assert tokens_of(Memory(10, file)) == [1, 2, NO_TOKEN, 3, NO_TOKEN]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_oldest_turns_leave_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_TOKENS", 7)
    memory = Memory(10, tmp_path / "a.ids")
    for turn in ([1, 2, 3], [4, 5], [6, 7], [8]):
        memory.add(turn)
    memory.save()
    assert tokens_of(Memory(10, tmp_path / "a.ids")) == [6, 7, NO_TOKEN, 8, NO_TOKEN]
    for _ in range(9):
        memory.add([9])
    assert 2 <= len(tokens_of(memory)) <= 14


DAMAGED = {
    "empty": b"",
    "other": b"something else, of sixteen bytes",
    "cut": HEADER + b"abc",
    "above": HEADER + np.array([10], IDS).tobytes(),
    "below": HEADER + np.array([-2], IDS).tobytes(),
    "large": HEADER + bytes(IDS.itemsize * (MOST_TOKENS + 1)),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused_by_name(tmp_path, content):
    (tmp_path / "a.ids").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"a\.ids"):
        Memory(10, tmp_path / "a.ids")


@pytest.mark.parametrize("drafting", ["lookup", "MT+lookup"])
def test_only_what_lookup_drafts_is_remembered(engine, drafting):
    engine.memory = Memory(300)
    check(engine.chat(replace(OPTIONS, drafting="M")), "What is this?", A)
    assert tokens_of(engine.memory) == []
    chat = engine.chat(replace(LOOKUP, drafting=drafting))
    check(chat, "What is this?", A)
    question = engine.target.tokenizer.encode("What is this?")
    tokens = tokens_of(engine.memory)
    assert tokens[-1] == NO_TOKEN
    assert tokens[-1 - len(chat.answer.token_ids) : -1] == list(chat.answer.token_ids)
    assert all(token in tokens for token in question)


def test_a_text_beside_a_conversation_may_be_one_path(llama_path, tmp_path):
    (tmp_path / "text.txt").write_text("a red square")
    for path in (tmp_path / "text.txt", str(tmp_path / "text.txt")):
        engine = load(llama_path, "none", backend="torch", draft_text=path, ready=False)
        assert engine.draft_text.index.length > 3
