"""The loop of a run: every sample answered by every method in turn, one row for each answer."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmspec.bench.speed import rotated
from mmspec.bench.suite.arms import MethodArm
from mmspec.bench.suite.items import Item, Question
from mmspec.bench.suite.record import Asked, compared, row_of
from mmspec.bench.suite.rows import PLAIN, Row, append, rewrite
from mmspec.errors import MmspecError

Skipped = Callable[[Item, MmspecError], None]


@dataclass(frozen=True, slots=True)
class Runner:
    """Everything a run needs besides its samples."""

    arms: Sequence[MethodArm]
    file: Path
    """Where rows go: a sample's all at once, when the last method has answered it."""
    skipped: Skipped | None = None
    """Told of each broken sample; None lets its error end the run."""

    def run(self, items: Sequence[tuple[int, Item]], done: Sequence[Row]) -> Iterator[list[Row]]:
        """Answer each sample that is not among `done`, and yield its rows once written.

        A broken one that is left out yields none.  items: with their places among all, which decide
        the order of the methods: it rotates, and is the same however a run is split.
        """
        finished = {row.sample for row in done}
        for place, item in items:
            if item.name in finished:
                continue
            try:
                rows = self._answered(place, item, item.read())
            except MmspecError as error:
                self._skip(item, error)
                rows = []
            append(self.file, rows)
            yield rows

    def whole(self, rows: Sequence[Row], items: Sequence[tuple[int, Item]]) -> list[Row]:
        """The rows without those of the last sample, where a kill has cut them; the file too."""
        last = [row for row in rows if row.sample == rows[-1].sample]
        item = next((item for _, item in items if last and item.name == last[0].sample), None)
        if item is None or len(last) == len(item.read()) * len(self.arms):
            return list(rows)
        kept = list(rows[: -len(last)])
        rewrite(self.file, kept)
        return kept

    def warm_up(self, item: Item) -> None:
        """Let every method answer once, uncounted: first calls load, compile and allocate."""
        questions = item.read()
        for arm in self.arms:
            list(arm.answers(questions))

    def _skip(self, item: Item, error: MmspecError) -> None:
        if self.skipped is None:
            raise type(error)(f"{item.name}: {error}; --skip-bad leaves it out") from error
        self.skipped(item, error)

    def _answered(self, place: int, item: Item, questions: Sequence[Question]) -> list[Row]:
        order = rotated(self.arms, place)
        answers = {arm.method.name: list(arm.answers(questions)) for arm in order}
        plain = answers.get(PLAIN)
        rows = []
        for position, arm in enumerate(order):
            for turn, said in enumerate(answers[arm.method.name]):
                asked = Asked(item, questions, turn)
                row = row_of(asked, arm, said, position)
                rows.append(compared(row, asked, arm, said, plain[turn]) if plain else row)
        return rows
