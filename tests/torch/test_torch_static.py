"""The static form says what the dynamic one says, and all of it can be captured."""

from dataclasses import replace

import pytest
import torch

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.block_attention import BLOCK
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from mmspec.exactness import probe
from mmspec.exactness.probe import rows_are_exact
from mmspec.prompt.clips import clip_of
from mmspec.prompt.images import picture_from
from mmspec_bench.prompts import world_prompts
from mmspec_torch.backend import TorchBackend
from mmspec_torch.graphs.replays import StaticCache
from mmspec_torch.sequence.replayed import ReplayedSequences
from support import sequence_helpers as helpers
from support.factory_fit import fit_head
from support.factory_heads import tiny_head
from support.factory_qwen import ROPES, tiny_qwen
from support.films import drawing
from support.replayed import Recording
from support.sequence_helpers import features
from support.stand_ins import Fault

DRAWN = Sampling(temperature=0.8, top_p=0.9)


@pytest.fixture
def check_alike(pair, switch, capture):
    """Holds what a function returns in the static form to what it returns in the dynamic one."""

    def check(run):
        expected = run()
        switch(pair)
        torch.testing.assert_close(run(), expected, atol=1e-4, rtol=0)
        assert capture.captured < capture.replayed
        assert pair[0].setup_seconds > 0

    return check


def told(rounds):
    return [(each.tokens, each.drafted, each.accepted) for each in rounds]


def conversation(pair, views, letters, sampling, gamma=4):
    """Two turns, the second after a part of the first is taken back."""
    chosen = [views[letter] for letter in letters]
    target = helpers.target(pair[0], views[0], sampling)
    drafter = helpers.branches(pair[1], chosen, sampling)
    held = target.length, drafter.length
    said = told(helpers.rounds(target, drafter, 24, gamma=gamma, seed=3))
    target.rewind(held[0])
    drafter.rewind(held[1])
    said += told(helpers.rounds(target, drafter, 18, gamma=gamma + 1, seed=3))
    target.extend(views[0])
    drafter.extend(chosen)
    said += told(helpers.rounds(target, drafter, 30, gamma=gamma, seed=3))
    return said, target.logits()


@pytest.mark.parametrize(
    ("pair", "letters", "sampling", "gamma"),
    [("none", [0], DRAWN, 12), ("int8", [1, 0], GREEDY, 1), ("none", [0, 1, 2, 1], DRAWN, 7)],
    indirect=["pair"],
)
def test_rounds_are_those_of_the_dynamic_form(pair, views, letters, sampling, gamma, check_alike):
    """Letters: rows of a drafter, by their numbers among the views."""
    check_alike(lambda: conversation(pair, views, letters, sampling, gamma))


def test_plain_rounds_between_drafts_are_caught_up(pair, views, check_alike):
    """On a CPU nothing is static unless a test says so."""
    assert not isinstance(pair[0].sequences, ReplayedSequences)

    def run():
        target, twin = helpers.target(pair[0], views[0]), helpers.branches(pair[0], views[:1])
        for token in helpers.plain(target, 9):
            twin.commit([], [token])
        rounds = helpers.rounds(target, twin, 30)
        assert all(each.accepted == each.drafted for each in rounds)
        return told(rounds)

    check_alike(run)


def test_tokens_of_plain_rounds_are_fed_in_few_shapes(pair, views, switch, capture, monkeypatch):
    monkeypatch.setattr(StaticCache, "step", 2048)  # none outgrows it
    switch(pair)
    drafter = helpers.branches(pair[1], views[:2])
    for count in 2 * [3, 13, 6, 37, 9, 22, 30, 17, 41, 28]:
        for token in range(count):
            drafter.commit([], [20 + token])
        helpers.draft(drafter, 2, 0.5, 0.5)
    assert capture.captured <= 2 + len((1, 2, 4, 8, 16, 32))


def test_a_sequence_that_ends_in_an_image_is_fed_as_before(pair, views, check_alike):
    """And the target's trail is whole."""
    open_ended = Segment([[1, 20], features(views[0])[0]])

    def run():
        target = helpers.target(pair[0], open_ended)
        target.hidden_states()
        rounds = helpers.rounds(target, helpers.branches(pair[1], [open_ended]), 29)
        return (
            told(rounds),
            target.states(0, target.length - 1),
            target.embeddings(0, target.length),
        )

    check_alike(run)


@pytest.mark.parametrize("exact", [ExactRows(1, 16), ExactRows(8, 8)])
def test_static_rows_are_exact(pair_paths, exact, capture, switch, monkeypatch):
    monkeypatch.setattr(probe, "POSITIONS", 4 * BLOCK)
    model = TorchBackend().load(pair_paths[0], dtype="bfloat16")
    switch([model])
    assert rows_are_exact(model, exact)
    assert capture.captured < capture.replayed


@pytest.mark.parametrize("exact", [None, ExactRows(1, 64), ExactRows(8, 8)])
def test_rows_of_trees_are_those_of_the_dynamic_form(pair, views, exact, check_alike):
    wide = [-1] * 3 + [node // 2 for node in range(80)]
    trees = [wide, [-1, 0, 0, 1], [-1, -1], wide[:20], [-1, 0, 0, 1]]

    def run():
        target = pair[0].open_target(GREEDY, exact)
        target.extend(views[0])
        drafts = [HostDraft([3 + node for node in range(len(tree))], tree) for tree in trees]
        return [rows for draft in drafts for rows in target.fed_rows(draft)]

    check_alike(run)


@pytest.mark.parametrize("call", [0, 1, 6, 13])
def test_a_fault_leaves_sequences_as_they_were(pair, views, call, switch):
    """It comes after a round's kernels and before the host knows of them."""
    calls = []

    def breaking(compute):
        def run():
            outputs = compute()
            if calls and calls.pop() == "fault":
                raise Fault
            return outputs

        return run

    switch(pair, breaking)
    target, drafter = helpers.target(pair[0], views[0]), helpers.branches(pair[1], views)
    held = target.length, drafter.length
    expected = told(helpers.rounds(target, drafter, 30))
    for sequence, length in zip((target, drafter), held, strict=True):
        sequence.rewind(length)
    calls += ["fault", *["fine"] * call]
    with pytest.raises(Fault):
        helpers.rounds(target, drafter, 80)
    for sequence, length in zip((target, drafter), held, strict=True):
        sequence.rewind(length)
    assert told(helpers.rounds(target, drafter, 30)) == expected


OPTIONS = {
    "adaptive drawn": {"drafting": "MTCP", "adaptive": True, "sampling": DRAWN, "seed": 5},
    "static tree": {"drafting": "M", "gamma": 2, "tree": Tree((3, 2)), "sampling": DRAWN},
    "dynamic tree": {"drafting": "TP", "tree": Tree((), 4, 12)},
    "lookup tree": {"drafting": "lookup", "sampling": DRAWN, "tree": Tree((), 4, 12)},
    "a head": {},
}


def chatted(engine, given):
    chat = engine.chat(Options(**{"gamma": 5, "max_new_tokens": 24} | given))
    answers = []
    for prompt in world_prompts(3, size=32):
        list(chat.send(prompt.message))
        counts = chat.answer.statistics
        answers.append((chat.answer.token_ids, counts.rounds, counts.accepted))
    return answers


@pytest.mark.parametrize("name", OPTIONS)
def test_chats_say_the_same_whatever_drafts(pair_paths, tmp_path, name, switch):
    target, draft = pair_paths
    if name == "a head":
        draft = fit_head(tiny_head(tmp_path / "msd", "msd", seed=2), target)
    engine = load(str(target), str(draft), backend="torch", device="cpu")
    expected = chatted(engine, OPTIONS[name])
    switch([each.model for each in (engine.target, engine.draft) if each])
    assert chatted(engine, OPTIONS[name]) == expected


def test_a_number_of_the_host_is_seen_to_be_stale():
    """The oracle itself: what a graph would get wrong is got wrong here."""
    given = 1
    replay = Recording()(lambda: (torch.zeros(1) + given,))
    given = 2
    assert replay()[0].item() == 1


def asked(engine):
    """Answers about images of two shapes and about a clip whose time outruns its columns.

    Its positions are beyond the static form's tables.
    """
    pictures = [picture_from(drawing(5, size)) for size in ((40, 17), (24, 33))]
    frames = [picture_from(drawing(number, (24, 16))) for number in range(4)]
    clip = clip_of(frames, (0, 100, 200, 300), 400, 1.0)
    options = Options(drafting="MP", gamma=3, max_new_tokens=12)
    tree, plain = replace(options, tree=Tree((), 3, 8)), replace(options, drafting="none")
    for chosen in (options, tree, plain):
        chat = engine.chat(chosen)
        for shown in (pictures, pictures[:1], clip):
            yield chat.reply("What is it?", shown).token_ids


@pytest.mark.parametrize("kind", ROPES)
def test_positions_in_time_row_and_column_are_those_of_the_dynamic_form(
    kind, tmp_path, capture, switch
):
    target = tiny_qwen(kind, tmp_path / "target", seed=3)
    draft = tiny_qwen(kind, tmp_path / "draft", seed=4, hidden_size=32, heads=2, layers=2)
    with load(str(target), str(draft), backend="torch") as engine:
        expected = [*asked(engine)]
        switch((engine.target.model, engine.draft.model))
        assert [*asked(engine)] == expected
        assert capture.captured < capture.replayed
