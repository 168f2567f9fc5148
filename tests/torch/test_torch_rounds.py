"""Rounds: one read, and faults that leave both sequences as they were."""

from collections import Counter

import pytest
import torch
import torch_oracle as oracle

from mmspec.sampling import GREEDY


@pytest.mark.parametrize("sampling", [GREEDY, oracle.WARM], ids=["greedy", "drawn"])
def test_each_round_reads_from_the_device_once(pair, views, sampling, monkeypatch):
    target = oracle.opened(pair[0], views[0], sampling)
    drafter = oracle.drafting(pair[1], views, sampling)
    calls = Counter()
    for name in ("tolist", "item", "__bool__", "__int__", "__float__", "__index__", "cpu", "numpy"):
        original = getattr(torch.Tensor, name)

        def spy(self, *given, _name=name, _original=original, **named):
            calls[_name] += 1
            return _original(self, *given, **named)

        monkeypatch.setattr(torch.Tensor, name, spy)
    done = oracle.rounds(target, drafter, 60, seed=None if sampling.greedy else 1)
    assert calls == {"tolist": len(done)}


@pytest.mark.parametrize("sampling", [GREEDY, oracle.WARM], ids=["greedy", "drawn"])
@pytest.mark.parametrize("call", range(1, 30, 3))
def test_a_fault_in_any_forward_leaves_both_sequences_as_they_were(
    pair, views, sampling, call, monkeypatch
):
    seed = None if sampling.greedy else 5
    target = oracle.opened(pair[0], views[0], sampling)
    drafter = oracle.drafting(pair[1], views, sampling)
    expected = oracle.spoken(oracle.rounds(target, drafter, 30, seed=seed))

    target = oracle.opened(pair[0], views[0], sampling)
    drafter = oracle.drafting(pair[1], views, sampling)
    starts = target.length, drafter.length
    with monkeypatch.context() as patch:
        oracle.fail_at(patch, call)
        with pytest.raises(oracle.Fault):
            _turn(target, drafter, views, seed)
    target.rewind(starts[0])
    drafter.rewind(starts[1])
    assert oracle.spoken(oracle.rounds(target, drafter, 30, seed=seed)) == expected


def _turn(target, drafter, views, seed):
    oracle.rounds(target, drafter, 12, seed=seed)
    target.extend(views[0])
    drafter.extend(views)
    oracle.rounds(target, drafter, 40, seed=seed)


def test_commits_that_follow_no_verification_are_refused(pair, views):
    target, drafter = oracle.opened(pair[0], views[0]), oracle.drafting(pair[1], views)
    with pytest.raises(ValueError, match="verified just now"):
        target.commit([], 5)
    with pytest.raises(ValueError, match="none of a draft 0 deep"):
        drafter.commit([0], [5])
    draft = drafter.draft(2, [0.5, 0.25, 0.25], ())
    target.verify(draft, ())
    with pytest.raises(ValueError, match="no path"):
        target.commit([1], 5)
    with pytest.raises(ValueError, match="none of a draft 2 deep"):
        drafter.commit([0, 1, 2], [5, 6, 7])
    for sequence in (target, drafter):
        with pytest.raises(ValueError, match="cannot rewind"):
            sequence.rewind(sequence.length + 1)
    with pytest.raises(ValueError, match="empty sequence"):
        pair[0].open_target(GREEDY).verify(None, ())
    with pytest.raises(ValueError, match="empty sequence"):
        pair[0].open_drafter(1, 320, GREEDY).draft(1, [1.0], ())
