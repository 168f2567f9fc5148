"""The rows of a benchmark run: what one method said to one question, and what it cost.

`rows.jsonl` holds one JSON object a line, in the order the answers were given.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from mmspec.errors import UsageError

ROWS = "rows.jsonl"
PROVENANCE = "provenance.json"
PLAIN = "none"
"""The method that decodes plainly; all others are compared with it."""


class RoundRow(NamedTuple):
    """One round: counts, then seconds."""

    drafted: int
    accepted: int
    emitted: int
    draft_seconds: float
    verify_seconds: float
    levels: int | None = None
    """Of a drafted tree; None where all that was drafted is one path."""

    @property
    def depth(self) -> int:
        """The most drafted tokens that could have been kept."""
        return self.drafted if self.levels is None else self.levels

    def as_list(self) -> list[float | None]:
        """The fields in order, `levels` only where there are any."""
        return list(self if self.levels is not None else self[:-1])


@dataclass(frozen=True, slots=True)
class Row:
    """One answer."""

    sample: str
    """Such as `chart/17`."""
    task: str
    images: int
    """Images in the conversation so far."""
    turn: int
    method: str
    position: int
    """The method's place in the order in which this sample was answered."""
    token_ids: list[int]
    pieces: list[str]
    """The text of each token; together they are the answer."""
    prompt_tokens: int
    finish_reason: str
    """'stop', 'length', or 'refused' where the model had no room for the prompt."""
    rounds: list[RoundRow]
    branches: list[str]
    """What was drafted from, such as M, T, P36; empty for plain decoding."""
    seconds: dict[str, float]
    """vision, caption, prefill, draft, verify, decode, first_token, total."""
    peak_memory_bytes: int
    identical: bool | None = None
    """Whether the tokens are those of plain decoding; None where there is nothing to compare."""
    divergence: dict[str, Any] | None = None
    """Where not: `position`, `margin` (the top-2 logit gap there) and `outcome`."""
    weights: list[list[float]] | None = None
    """[rounds, branches] where they are not the same in all rounds."""
    facts: dict[str, int] | None = None
    """`asked` and `right`, where the truth is known."""
    notes: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int]:
        """What was asked: equal for the answers that all methods gave to it."""
        return self.sample, self.turn

    @property
    def text(self) -> str:
        """The answer."""
        return "".join(self.pieces)

    @property
    def emitted(self) -> int:
        """Tokens of the answer."""
        return sum(each.emitted for each in self.rounds)

    @property
    def drafted(self) -> int:
        """Tokens, or nodes of trees, drafted."""
        return sum(each.drafted for each in self.rounds)

    @property
    def depth(self) -> int:
        """Drafted tokens that could have been kept at best: one of each level of a tree."""
        return sum(each.depth for each in self.rounds)

    @property
    def accepted(self) -> int:
        """Drafted tokens that were kept."""
        return sum(each.accepted for each in self.rounds)

    def as_dict(self) -> dict[str, Any]:
        """The JSON object; `weights` and `facts` only where there are any."""
        values = asdict(self) | {"rounds": [each.as_list() for each in self.rounds]}
        absent = [name for name in ("weights", "facts") if values[name] is None]
        return {name: value for name, value in values.items() if name not in absent}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Row":
        """Read what `as_dict` wrote; keys of later versions are passed over.

        Raises KeyError for a missing key, TypeError or ValueError for a value of another kind.
        """
        known = {each.name: values[each.name] for each in fields(cls) if each.name in values}
        for each in fields(cls):
            if each.name not in known and each.default is each.default_factory is MISSING:
                raise KeyError(each.name)
        known["rounds"] = [RoundRow(*each) for each in known["rounds"]]
        return cls(**known)


def read_rows(file: Path) -> list[Row]:
    """Read all rows of a file; a last line that a kill has torn is left out.

    Raises UsageError naming the file and the line that is no row.
    """
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    whole, _, _torn = text.rpartition("\n")
    lines = enumerate(whole.split("\n"), start=1)
    return [_row(line, f"{file}:{number}") for number, line in lines if line]


def _row(line: str, where: str) -> Row:
    try:
        return Row.from_dict(json.loads(line))
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}: not JSON ({error.msg}); delete the line to go on") from error
    except KeyError as error:
        raise UsageError(f"{where}: not a row: {error.args[0]!r} is missing") from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: not a row: {error}") from error


def append(file: Path, rows: Sequence[Row]) -> None:
    """Write rows at the end of a file, and come back when they are on the disk."""
    with file.open("a", encoding="utf-8") as opened:
        opened.write("".join(lines(rows)))
        opened.flush()
        os.fsync(opened.fileno())


def rewrite(file: Path, rows: Sequence[Row]) -> None:
    """Replace a file's rows: the old ones stay until the new ones are on the disk."""
    beside = file.with_name(f"{file.name}.new")
    beside.unlink(missing_ok=True)
    append(beside, rows)
    beside.replace(file)


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """Each row as a line of JSON."""
    return (json.dumps(row.as_dict(), ensure_ascii=False) + "\n" for row in rows)
