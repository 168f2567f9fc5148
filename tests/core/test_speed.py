"""The speed measurement: pairing, order, spreads and shares, on arms whose times are known."""

from mmspec.diagnostics.prompts import user_prompt
from mmspec_bench.measure.speed import measure
from mmspec_bench.measure.timing import Spread, Timing
from support.stand_ins import quiet

PROMPTS = [user_prompt("one"), user_prompt("two")]


class FixedMethod:
    def __init__(self, name, seconds, log, tokens=(5, 6, 2)):
        self.name, self.seconds, self.log, self.tokens = name, iter(seconds), log, list(tokens)

    def answer(self, prompt):
        self.log.append((self.name, prompt.name))
        return Timing(self.tokens, 3, 2, 3, next(self.seconds), 0.5, depth=4, accepted=1)


def test_methods_are_paired_and_interleaved():
    log = []
    plain = FixedMethod("plain", [9, 1.0, 2.0, 3.0, 4.0], log)
    twice = FixedMethod("twice", [9, 0.5, 1.0, 1.0, 2.0], log)
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
    assert (second.tokens_per_round, second.acceptance_rate) == (1.5, 0.25)
