"""What parts of a round cost: how often they are timed, and which of them a run measures."""

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec_bench.measure import costs
from mmspec_bench.suite.answerer import open_answerer
from mmspec_bench.suite.measure_costs import measure_costs
from mmspec_bench.suite.methods import read_methods
from mmspec_bench.suite.sources import suite_samples


@pytest.mark.parametrize(("seconds", "passes"), [(0.0, 3), (2.0, 3), (10.0, 10)])
def test_quick_passes_are_repeated_for_a_time_and_the_first_is_not_counted(
    monkeypatch, seconds, passes
):
    passed = []
    # Every pass takes a second.
    monkeypatch.setattr(costs, "perf_counter", lambda: float(len(passed)))

    def once():
        passed.append(1.0 if passed else 99.0)
        return [passed[-1], float(len(passed))]

    first, second = costs.Passes(3, seconds).time(once)
    assert first == 1.0
    assert len(passed) == 1 + passes
    assert second == 2 + (passes - 1) / 2


def test_a_middle_mean_follows_turns_and_no_single_disturbance():
    assert costs.middle_mean([1.0, 9.0] * 4) == 5.0
    assert costs.middle_mean([1.0] * 7 + [99.0]) == 1.0
    assert costs.middle_mean([2.0, 4.0]) == 3.0


def test_fits_and_trees_are_measured_for_the_methods_that_need_them(pair_paths):
    target, draft = pair_paths
    engine = load(str(target), str(draft), backend="torch")
    asked = suite_samples("offline", 32, limit=1, tasks=["chart"])
    options = Options(gamma=3)

    def measured(methods):
        answerers = [open_answerer(method, engine, options) for method in read_methods(methods)]
        [measured_costs] = measure_costs(engine, asked, answerers, costs.Passes(1))
        return measured_costs

    whole = measured("adaptive:MT,tree:M,tree3x2:MT,none")
    assert (len(whole.target), len(whole.draft), len(whole.refit)) == (4, 4, 4)
    assert whole.refit[0] == 0
    assert all(each > 0 for each in whole.refit[1:])
    assert {name: len(each) for name, each in whole.trees.items()} == {"tree:M": 2, "tree3x2:MT": 2}
    assert all(each > 0 for pair in whole.trees.values() for each in pair)
    bare = measured("MT,none")
    assert (bare.refit, bare.trees, len(bare.target)) == ([], {}, 4)


def test_plain_decoding_alone_needs_its_step_alone(pair_paths):
    engine = load(str(pair_paths[0]), str(pair_paths[1]), backend="torch")
    [answerer] = (
        open_answerer(method, engine, Options(gamma=3)) for method in read_methods("none")
    )
    asked = suite_samples("offline", 32, limit=1, tasks=["chart"])
    [measured_costs] = measure_costs(engine, asked, [answerer], costs.Passes(1))
    assert (len(measured_costs.target), measured_costs.draft) == (1, [])


def test_without_a_draft_rows_are_measured_for_n_grams(pair_paths):
    engine = load(str(pair_paths[0]), "none", backend="torch")
    asked = suite_samples("offline", 32, limit=1, tasks=["chart"])
    for methods, rows in (("ngram,none", 4), ("none", 1)):
        answerers = [
            open_answerer(method, engine, Options(gamma=3)) for method in read_methods(methods)
        ]
        [measured_costs] = measure_costs(engine, asked, answerers, costs.Passes(1))
        assert (len(measured_costs.target), measured_costs.draft) == (rows, [])
