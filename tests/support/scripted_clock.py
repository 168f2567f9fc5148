"""A machine on which rounds take what a curve says: scripted models that move a clock."""

from dataclasses import dataclass

from mmspec.chat import session
from mmspec.chat.session import MeasuredRounds
from mmspec.draft_length.calibration_file import ROWS, Calibration
from mmspec_bench.measure import calibrate
from support.scripted import ScriptedBranches, ScriptedTarget


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
        verify, draft = ScriptedTarget.verify, ScriptedBranches.draft

        def verified(target, drafted, noise):
            self.now += self.verify(1 + (drafted.size if drafted else 0))
            return verify(target, drafted, noise)

        def drafted(branches, plan, weights, noise):
            branches.wrong_every = 10**9
            self.now += plan.gamma * self.token(branches.rows)
            return draft(branches, plan, weights, noise)

        monkeypatch.setattr(ScriptedTarget, "verify", verified)
        monkeypatch.setattr(ScriptedBranches, "draft", drafted)
        monkeypatch.setattr(calibrate, "perf_counter", lambda: self.now)

        def timed(*arguments, work):
            return MeasuredRounds(*arguments, clock=lambda: self.now)

        monkeypatch.setattr(session, "MeasuredRounds", timed)

    def calibration(self, contexts=(64, 512)):
        """What `calibrate` should measure."""
        target = {rows: self.verify(rows) for rows in ROWS}
        draft = {count: self.token(count) for count in range(1, 5)}
        return Calibration(dict.fromkeys(contexts, target), dict.fromkeys(contexts, draft))


FLAT, STEEP = Machine(1.1, 0.05), Machine(3.3, 1.0)
