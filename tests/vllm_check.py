"""Compare vLLM's answers and its kept drafts with this project's, on one target and one head.

    python tests/vllm_check.py [--vllm PYTHON] [--head mini-eagle3] [--count 50] [--gamma 3]
        [--max-new-tokens 40] [--out FILE]

vLLM answers greedily, as a chat, in float32, first alone and then with the head, exported; both
engines get the same pictures of the synthetic world. `--vllm` is the Python of vLLM's environment.
Prints a line for each difference and each comparison. Exits with 1 if an answer differs where the
target's two best logits do not, or if accepted tokens a round are more than 5 % apart.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from mmspec.chat.answer import Answer
from mmspec.chat.engine import Engine, load
from mmspec.chat.options import Options
from mmspec.checkpoints.hub import resolve
from mmspec.diagnostics.check import NEAR_TIES, Divergence, common_prefix, diverged, place_after
from mmspec.diagnostics.prompts import Prompt
from mmspec.diagnostics.single_turn import answer_once
from mmspec_bench.compare.methods import PeerMethod, vllm_methods
from mmspec_bench.compare.runner import own_task, question_of, run_script
from mmspec_bench.compare.script_io import Task
from mmspec_bench.measure.timing import Timing
from mmspec_bench.prompts import world_prompts

ROOT = Path(__file__).parent.parent
SOURCES = [str(ROOT / folder) for folder in ("", "backends", "cli", "models")]
"""The folders that hold this project's packages, for vLLM's Python."""
TARGET = "mini"
LABEL = "images"
TOLERANCE = 0.05
"""The most by which accepted tokens a round may differ, as a share of this project's."""


@dataclass
class Report:
    """How many answers are equal, where the others part, and accepted tokens a round."""

    method: str
    answers: int
    equal: int = 0
    divergences: dict[str, Divergence] = field(default_factory=dict)
    """By the prompt's name."""
    accepted: float = 0.0
    accepted_by_vllm: float = 0.0

    @property
    def failed(self) -> bool:
        """True if a difference is no near-tie, or the accepted tokens differ too much."""
        outcomes = [each.outcome(NEAR_TIES["float32"]) for each in self.divergences.values()]
        apart = abs(self.accepted_by_vllm - self.accepted)
        return "bug" in outcomes or apart > TOLERANCE * self.accepted

    def lines(self) -> Iterator[str]:
        """The report as text."""
        for name, each in self.divergences.items():
            outcome, (ours, theirs) = each.outcome(NEAR_TIES["float32"]), each.texts
            yield f"  {name}, token {each.position}: {ours!r}, {theirs!r} in vLLM ({outcome})"
        rates = f"{self.accepted:.3f} accepted tokens a round, {self.accepted_by_vllm:.3f} in vLLM"
        yield f"{self.method}: {self.equal} of {self.answers} answers equal; {rates}"


class Comparison:
    """This project's engine with a head, and vLLM in processes of its own."""

    def __init__(self, head: str, gamma: int, task: Task, prompts: Sequence[Prompt]) -> None:
        self._engine: Engine = load(TARGET, head, backend="torch", device="cpu", dtype="float32")
        self._options = Options(self._engine.head.kind, gamma=gamma, max_new_tokens=task.max_tokens)
        self._task, self._prompts = task, prompts

    def report(self, method: PeerMethod, folder: str) -> Report:
        """Answer all prompts on both sides, with the head if the method drafts."""
        options = self._options if method.drafts else replace(self._options, drafting="none")
        run = run_script(method.command, own_task(method, self._task, folder))
        if run.reasons:
            raise SystemExit(f"vLLM: {run.reasons[LABEL]}")
        report = Report(method.name, len(self._prompts))
        rates = []
        for prompt, reply in zip(self._prompts, run.replies[LABEL], strict=True):
            answer = answer_once(self._engine, prompt.message, options)
            rates += [round_.accepted for round_ in answer.rounds]
            self._compare(prompt, answer, reply, report)
        report.accepted = fmean(rates)
        counters = run.described["counters"]
        report.accepted_by_vllm = counters["accepted_tokens"] / max(counters["drafts"], 1)
        return report

    def _compare(self, prompt: Prompt, answer: Answer, reply: Timing, report: Report) -> None:
        target = self._engine.target
        ours = [token for token in answer.token_ids if token not in target.stop]
        if ours == reply.tokens:
            report.equal += 1
            return
        shared = ours[: common_prefix(ours, reply.tokens)]
        place = place_after(self._engine, prompt.message, shared, self._options)
        divergence = diverged(ours, reply.tokens, place, target.tokenizer)
        report.divergences[prompt.name] = divergence


def compare(
    python: str, head: str, count: int, gamma: int, max_new_tokens: int = 40
) -> list[Report]:
    """Both comparisons: plain decoding, and drafting with the head."""
    os.environ.update(PYTHONPATH=os.pathsep.join(SOURCES), HF_HUB_OFFLINE="1")
    target, draft = (str(resolve(name, "torch")) for name in (TARGET, head))
    prompts = world_prompts(count, size=144)
    with TemporaryDirectory() as folder:
        questions = {LABEL: [question_of(prompt, Path(folder)) for prompt in prompts]}
        task = Task(target, draft, "cpu", "float32", {}, max_new_tokens, questions)
        comparison = Comparison(head, gamma, task, prompts)
        return [comparison.report(method, folder) for method in vllm_methods(python, gamma)]


def main() -> None:
    """Run the comparison as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--vllm", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--head", default="mini-eagle3")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--gamma", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=40)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    reports = compare(given.vllm, given.head, given.count, given.gamma, given.max_new_tokens)
    sys.stdout.write("".join(f"{line}\n" for report in reports for line in report.lines()))
    if given.out:
        given.out.write_text(json.dumps([asdict(report) for report in reports], indent=1) + "\n")
    raise SystemExit(any(report.failed for report in reports))


if __name__ == "__main__":
    main()
