"""Numbers of rows that a target feeds at once if every row is to get the same bits."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, NamedTuple

from mmspec.ground.json_file import Range


class Tile(NamedTuple):
    """Rows of a draft that one forward feeds."""

    start: int
    stop: int
    indices: list[int]
    """[m] indices of the rows from `start` to `stop`, then that of `start` again as padding."""


@dataclass(frozen=True, slots=True)
class ExactRows:
    """A row gets the same bits in forwards of these numbers of rows, whatever the others hold."""

    multiple: Annotated[int, Range(1, 4096)]
    """The number of rows is a multiple of this one."""
    most: Annotated[int, Range(1, 4096)]
    """The largest number of rows, a multiple too."""

    def __post_init__(self) -> None:
        """Raises ValueError for a largest number that is no multiple."""
        if self.most % self.multiple:
            raise ValueError(f"{self.most} rows at most are no multiple of {self.multiple}")

    def tiles(self, count: int) -> Iterator[Tile]:
        """Cut `count` rows into forwards; only the last one may be padded."""
        for start in range(0, count, self.most):
            stop = min(start + self.most, count)
            padding = [start] * (-(stop - start) % self.multiple)
            yield Tile(start, stop, [*range(start, stop), *padding])

    def line(self) -> str:
        """One line for reports."""
        if self.multiple == self.most:
            return f"forwards of {self.most} rows"
        if self.multiple == 1:
            return f"forwards of 1 to {self.most} rows"
        return f"forwards of {self.multiple}, {2 * self.multiple}, … {self.most} rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactFields:
    """Whether a target decodes exactly: the fields that every JSON report has in common."""

    exact: bool
    """True if it decodes with exact rows, so that there are no near-ties."""
    exact_mode: str
    """The mode of `--exact` that was asked for."""
    exact_rows: dict[str, int] | None
    """`multiple` and `most` of the exact rows; None for ordinary forwards."""


def exact_fields(mode: str, rows: ExactRows | None) -> dict[str, Any]:
    """The values of `ExactFields` for a mode of `--exact` and the rows that it gave."""
    return {"exact": rows is not None, "exact_mode": mode, "exact_rows": rows and asdict(rows)}
