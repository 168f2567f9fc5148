"""A machine on which rounds take what a curve says: scripted models that move a clock."""

from dataclasses import dataclass

from mmspec.decoding import loop
from mmspec.draft_length.calibration_file import ROWS, Calibration
from mmspec_bench.measure import costs as bench_costs
from support.scripted import ScriptedDrafter, ScriptedTarget


@dataclass
class Machine:
    """A clock that target and drafter move by what a round costs here; the draft is always right.

    Four rows take `four` steps, a drafted token `draft` steps and a tenth more for every branch.
    """

    four: float = 1.1
    draft: float = 0.05
    now: float = 0.0

    def verify(self, rows):
        return 1 + (rows - 1) * (self.four - 1) / 3

    def token(self, branches):
        return self.draft * (0.9 + 0.1 * branches)

    def run(self, monkeypatch):
        """Move the clock in every round from now on."""
        verify, draft = ScriptedTarget.verify, ScriptedDrafter.draft

        def verified(target, drafted, noise):
            self.now += self.verify(1 + (drafted.size if drafted else 0))
            return verify(target, drafted, noise)

        def drafted(drafter, k, weights, noise):
            drafter.wrong_every = 10**9
            self.now += k * self.token(drafter.rows)
            return draft(drafter, k, weights, noise)

        monkeypatch.setattr(ScriptedTarget, "verify", verified)
        monkeypatch.setattr(ScriptedDrafter, "draft", drafted)
        for module in (loop, bench_costs):
            monkeypatch.setattr(module, "perf_counter", lambda: self.now)

    def calibration(self):
        """What `calibrate` should measure."""
        target = {rows: self.verify(rows) for rows in range(1, ROWS + 1)}
        return Calibration(target, {count: self.token(count) for count in range(1, 5)})


FLAT, STEEP = Machine(1.1, 0.05), Machine(3.3, 1.0)
