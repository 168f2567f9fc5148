"""The speed measurement: pairing, order, spreads and shares, on arms whose times are known."""

import json
import math
import signal
from time import perf_counter
from types import SimpleNamespace

import pytest

from mmspec import loop
from mmspec.bench.arms import Timing, chosen, drafting_arm
from mmspec.bench.costs import Costs
from mmspec.bench.host import Looks, looking
from mmspec.bench.prompts import asked, drawn
from mmspec.bench.speed import Spread, best_gamma, measure, rotated, speed
from mmspec.engine import load
from mmspec.options import Options
from mmspec.tree import Tree

PROMPTS = [asked("one"), asked("two")]


class FixedArm:
    def __init__(self, name, seconds, log, tokens=(5, 6, 2)):
        self.name, self.seconds, self.log, self.tokens = name, iter(seconds), log, list(tokens)

    def answer(self, prompt):
        self.log.append((self.name, prompt.name))
        return Timing(self.tokens, 3, next(self.seconds), rounds=2, depth=4, accepted=1)


def quiet(_):
    """Shows nothing."""


def test_arms_are_paired_and_interleaved():
    log = []
    plain = FixedArm("plain", [9, 1.0, 2.0, 3.0, 4.0], log)
    twice = FixedArm("twice", [9, 0.5, 1.0, 1.0, 2.0], log)
    first, second = measure([plain, twice], PROMPTS, 2, quiet)
    warm, rest = log[:2], log[2:]
    assert warm == [("plain", "one"), ("twice", "one")]
    assert rest == [
        *[("plain", "one"), ("twice", "one"), ("twice", "two"), ("plain", "two")],
        *[("plain", "one"), ("twice", "one"), ("twice", "two"), ("plain", "two")],
    ]
    assert first.speed_up == Spread(1.0, 1.0, 1.0)
    assert second.speed_up == Spread(2.0, 2.0, 3.0)
    assert second.tokens_per_second == Spread(3.0, 1.5, 6.0)
    assert (second.block_efficiency, second.acceptance_rate) == (1.5, 0.25)


def test_the_speed_up_is_a_median_of_pairs_and_not_a_ratio_of_medians():
    plain = FixedArm("plain", [9, 1.0, 10.0, 2.0], [])
    other = FixedArm("other", [9, 1.0, 1.0, 4.0], [])
    _, result = measure([plain, other], PROMPTS[:1], 3, quiet)
    assert result.speed_up.median == 1.0


def test_other_tokens_are_reported():
    arms = [FixedArm("plain", [1.0] * 9, []), FixedArm("off", [1.0] * 9, [], tokens=(5, 7, 2))]
    assert [each.identical for each in measure(arms, PROMPTS, 1, quiet)] == [True, False]


def test_rotation_starts_with_each_in_turn():
    assert ["".join(rotated("abc", n)) for n in range(4)] == ["abc", "bca", "cab", "abc"]


def test_spread_text():
    assert Spread.of([3.0, 1.0, 2.0]).text(1) == "2.0 [1.0..3.0]"


def test_ratios():
    costs = Costs(5, 0.012, 0.018, {"M": 0.001, "MTCP": 0.0016})
    assert costs.ratios == pytest.approx(
        {"target step / draft step": 12, "4 branches / 1": 1.6, "6 target rows / 1": 1.5}
    )


def frames(*calls):
    """A stack of (file, function), the outermost first; returns the innermost frame."""
    frame = None
    for file, name in calls:
        frame = SimpleNamespace(
            f_code=SimpleNamespace(co_filename=file, co_name=name), f_back=frame
        )
    return frame


def test_the_host_share_is_of_looks_in_rounds():
    looks = Looks(frozenset({"/site/mmspec_x/llama.py"}))
    decode, verify = (loop.__file__, "decode"), ("/site/mmspec_x/target.py", "verify")
    forward, norm = ("/site/mmspec_x/llama.py", "forward"), ("/site/mmspec_x/norms.py", "norm")
    looks.look(frames(("chat.py", "send"), decode, verify, forward, norm))
    looks.look(frames(decode, verify))
    looks.look(frames(decode))
    looks.look(frames(decode, verify, forward))
    looks.look(frames(("chat.py", "send")))
    assert (looks.rounds, looks.outside) == (4, 0.5)


def test_looks_come_from_the_clock_and_end():
    looks = Looks(frozenset({__file__}))

    def decode():
        busy = perf_counter() + 0.05
        while perf_counter() < busy:
            math.sqrt(2)

    before = signal.getsignal(signal.SIGALRM)
    decode.__code__ = decode.__code__.replace(co_filename=loop.__file__)
    with looking(looks.look):
        decode()
    assert looks.rounds > 10
    assert looks.outside == 0  # the test's own frame is in the stack
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_weights_stay_with_their_letters():
    options = Options(drafting="MT", weights=(2.0, 1.0))
    assert chosen(options, "MT", 3).weights == (2.0, 1.0)
    assert chosen(options, "MTC", 3).weights == ()


@pytest.fixture(scope="module")
def engine(pair_paths):
    target, draft = pair_paths
    return load(str(target), str(draft), backend="torch")


def test_a_gamma_alone_is_not_searched():
    assert best_gamma(None, Options(), "M", [4], PROMPTS, quiet) == 4


def test_a_whole_report_on_a_small_pair(engine):
    prompts = drawn(1, size=32)
    report = speed(
        engine,
        prompts,
        Options(max_new_tokens=12),
        words=["M", "MTCP"],
        gammas=[1, 3],
        repeats=1,
        progress=quiet,
    )
    plain, *drafted = report.arms
    assert (plain.name, plain.block_efficiency, plain.acceptance_rate) == ("plain", 1.0, 0.0)
    assert all(arm.identical and arm.block_efficiency > 1 for arm in drafted)
    assert set(report.costs.draft_step) == {"M", "MTCP"}
    assert all(0 <= share.of_loop < 1 and 0 < share.of_round < 1 for share in report.host)
    assert (report.refit.drafting, report.refit.rule) == ("MTCP", "lattice")
    assert report.refit.rounds > 10
    assert 0 < report.refit.refit < report.refit.draft + report.refit.verify
    told = json.loads(json.dumps(report.as_dict()))
    assert told["refit"]["share"] == pytest.approx(report.refit.share)
    assert told["provenance"]["versions"]["torch"]
    assert told["ratios"]["4 branches / 1"] > 0


def test_of_a_tree_levels_could_have_been_kept_not_nodes(engine):
    options = Options(max_new_tokens=12, tree=Tree((3, 2)))
    timing = drafting_arm(engine, options, "M", 5).answer(drawn(1, size=32)[0])
    assert 0 < timing.depth <= 2 * timing.rounds


def test_an_arm_times_decoding_alone(engine):
    arm = drafting_arm(engine, Options(max_new_tokens=8), "none", 1)
    timing = arm.answer(drawn(1, size=32)[0])
    assert (timing.timed_tokens, timing.rounds, timing.depth) == (8, 8, 0)
    assert timing.seconds > 0
