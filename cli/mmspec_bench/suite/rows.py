"""The rows of a run in `rows.jsonl`: one method's answer to one question, and its cost."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple, TypedDict

from mmspec.ground.errors import UsageError
from mmspec.ground.input_files import read_errors, require_file
from mmspec.ground.json_file import Length, Range, parse_lines
from mmspec.ground.output_files import write_errors

ROWS = "rows.jsonl"
PROVENANCE = "provenance.json"
PLAIN = "none"
"""The method that decodes plainly; all others are compared with it."""

Count = Annotated[int, Range(0, 10**15)]
Tokens = Annotated[int, Range(0, 100_000)]
"""A number of tokens in one round."""
Seconds = Annotated[float, Range(0, 1e9)]
Name = Annotated[str, Length(1, 1000)]


class RowDivergence(TypedDict):
    """Where an answer differs from plain decoding's."""

    position: Count
    margin: float | None
    outcome: str


class RoundRow(NamedTuple):
    """The counts and seconds of one round."""

    drafted: Tokens
    accepted: Tokens
    emitted: Tokens
    draft_seconds: Seconds
    verify_seconds: Seconds
    depth: Tokens
    """The most drafted tokens that the target could accept: a chain's, or one per tree level."""
    by_lookup: bool = False


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One method's answer to one question, with counts and seconds."""

    sample: Name
    """Task and number, such as `chart/17`."""
    task: Name
    images: Count
    """Number of images in the conversation so far."""
    turn: Count
    method: Name
    token_ids: list[Count]
    pieces: list[str]
    """The text of each token; together they are the answer."""
    prompt_tokens: Count
    finish_reason: str
    """'stop' or 'length'."""
    rounds: list[RoundRow]
    branches: list[str]
    """The views that drafted, such as M, T, P36; empty for plain decoding."""
    seconds: dict[str, Seconds]
    """Seconds of vision, caption, prefill, draft, verify, decode, total."""
    peak_memory_bytes: Count
    identical: bool | None = None
    """True if the tokens equal plain decoding's; None if they were not compared."""
    divergence: RowDivergence | None = None
    """`position`, `margin` (top-2 logit gap there) and `outcome` of an answer that differs."""
    notes: list[str] = field(default_factory=list)
    drafted_share: Annotated[float, Range(0, 1e6)] = 0.0
    """Parameters read for a drafted token over the target's."""
    first_image: str | None = None
    """Digest of the sample's first image, by which samples are resampled together."""

    @property
    def key(self) -> tuple[str, int]:
        """Sample and turn, which identify the question for all methods."""
        return self.sample, self.turn

    @property
    def emitted(self) -> int:
        """Number of tokens in the answer."""
        return sum(round_.emitted for round_ in self.rounds)

    @property
    def drafted(self) -> int:
        """Number of drafted tokens, or of nodes for trees."""
        return sum(round_.drafted for round_ in self.rounds)


def read_rows(file: Path) -> list[AnswerRow]:
    """Read all complete rows of a file; raises UsageError naming a malformed line."""
    with read_errors(file, UsageError):
        require_file(file)
        text = file.read_text(encoding="utf-8", errors="replace")
    complete = text.rpartition("\n")[0].split("\n")
    rows = parse_lines(AnswerRow, complete, file, "; delete the line to go on")
    return [_check(row, f"{file}:{number}") for number, row in rows]


def _check(row: AnswerRow, where: str) -> AnswerRow:
    if "decode" not in row.seconds:
        raise UsageError(f"{where}: seconds.decode is missing")
    for number, round_ in enumerate(row.rounds):
        if round_.accepted > round_.depth:
            raise UsageError(
                f"{where}: rounds[{number}].accepted is {round_.accepted}, but must be at most the "
                f"{round_.depth} drafted"
            )
    return row


def append(file: Path, rows: Sequence[AnswerRow]) -> None:
    """Append rows to a file; on return they are on the disk. Raises WriteError."""
    with write_errors(file), file.open("a", encoding="utf-8") as stream:
        stream.write(lines(rows))
        stream.flush()
        os.fsync(stream.fileno())


def lines(rows: Iterable[AnswerRow]) -> str:
    """Each row as a line of JSON."""
    return "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
