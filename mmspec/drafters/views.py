"""The views M, T, C and P of a prompt, their weights, and the rule for those that are too long.

Each view is a different prompt for the same draft model (IbED, sections 3.1 and 3.2): M has the
images as the target sees them, T a newline for each image, C `image: ` and a caption, P the images
with average-pooled features. A branch is a view as one row of the draft's batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mmspec.checkpoints.config import ModelConfig
from mmspec.decoding.contract import Features, Segment
from mmspec.families.grid import Grid
from mmspec.ground.errors import UsageError, choice
from mmspec.prompt.chunks import Chunk
from mmspec.prompt.images import Picture

LETTERS = {"M": "multimodal", "T": "text only", "C": "caption", "P": "pooled"}
AND_LOOKUP = "+lookup"
"""End of a value of --drafting, after views or a head's kind, beside which lookup drafts."""
OVERFLOWS = ("auto", "pool", "drop", "run")


@dataclass(frozen=True, slots=True)
class Branch:
    """A view's letter and, for P, the number of positions to which an image is pooled."""

    letter: str
    positions: int = 0

    def __str__(self) -> str:
        return f"{self.letter}{self.positions}" if self.letter == "P" else self.letter


@dataclass(frozen=True, slots=True)
class Drafting:
    """The branches (views) of one batched draft, and a weight for each; they sum to one."""

    branches: tuple[Branch, ...]
    weights: tuple[float, ...]
    kind: str = ""
    """'lookup' or a head's kind; empty if a draft model reads the branches."""
    with_lookup: bool = False
    """Whether lookup drafts beside a draft model or head, in the rounds where it is the surer."""

    @property
    def spec(self) -> str:
        """The value of --drafting that names this drafting, such as 'none', 'MTC' or 'msd'."""
        return (self.kind or self.letters or "none") + AND_LOOKUP * self.with_lookup

    @property
    def letters(self) -> str:
        """The letters of the branches, such as MTC."""
        return "".join(branch.letter for branch in self.branches)


TEXT = Branch("T")
PLAIN = Drafting((), ())
LOOKUP = Drafting((TEXT,), (1.0,), "lookup")
"""The drafting by lookup in the text view, without a model (`drafters.lookup`)."""


WITHOUT_MODEL = {"none": PLAIN, "lookup": LOOKUP, "ngram": LOOKUP}
"""Draftings without a draft model, by the values of --drafting that name them."""


def parse_drafting(
    spec: str, draft: ModelConfig, weights: Sequence[float] = (), pool: int | None = None
) -> Drafting:
    """Parse 'lookup', 'none' or letters such as 'MTC', with weights (default equal) and P's size.

    Raises UsageError, also for M or P if the draft has no vision tower, and for a pooled size that
    does not divide the grid.
    """
    if spec in WITHOUT_MODEL:
        return WITHOUT_MODEL[spec]
    branches = tuple(_branch(letter, draft, pool) for letter in read_letters(spec))
    return Drafting(branches, normalise_weights(weights, len(branches)))


def read_letters(spec: str) -> list[str]:
    """The letters of `spec` in capitals.  Raises UsageError for unknown, repeated or no ones."""
    letters = list(spec.upper())
    for letter in letters:
        if letter not in LETTERS:
            letters_of = f"letters of {''.join(LETTERS)}"
            raise choice("drafting", spec, [letters_of, "lookup", "none", "a head's own kind"])
    if len(set(letters)) < len(letters) or not letters:
        raise UsageError(f"`drafting={spec!r}`: give each of the letters M, T, C, P at most once")
    return letters


def _branch(letter: str, draft: ModelConfig, pool: int | None) -> Branch:
    if letter not in "MP":
        return Branch(letter)
    if draft.vision is None:
        raise UsageError(
            f"drafting {letter} ({LETTERS[letter]}) needs a draft that sees images; this one is "
            "text-only: use T or C"
        )
    return Branch(letter, 0 if letter == "M" else pooled_positions(draft, pool))


def pool_sizes(draft: ModelConfig) -> list[int]:
    """Numbers of positions to which the draft's images can be pooled, largest first."""
    return draft.vision.pool_sizes if draft.vision else []


def pooled_positions(draft: ModelConfig, pool: int | None) -> int:
    """Number of positions of a pooled image: `pool`, or the largest up to a quarter of the grid."""
    sizes = pool_sizes(draft)
    if pool is None:
        return next(size for size in sizes if 4 * size <= draft.image_tokens)
    if pool not in sizes:
        nearest = min(sizes, key=lambda size: abs(size - pool))
        names = ", ".join(map(str, sizes))
        raise UsageError(f"`pool={pool}`: the grid divides into {names} (nearest: {nearest})")
    return pool


def normalise_weights(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """`count` weights that sum to one, equal by default; raises UsageError for invalid weights."""
    weights = weights or [1.0] * count
    option = f"`weights={','.join(map(str, weights))}`"
    if len(weights) != count:
        raise UsageError(f"{option}: give {count} numbers, one for each letter")
    are_numbers = all(isinstance(weight, int | float) for weight in weights)
    if not are_numbers or min(weights) < 0 or not 0 < sum(weights) < float("inf"):
        raise UsageError(f"{option}: give numbers >= 0, one above 0")
    return tuple(weight / sum(weights) for weight in weights)


@dataclass(frozen=True, slots=True)
class Views:
    """Converts chunks of a prompt to the segments that one model is fed."""

    newline_id: int
    features: Callable[[Picture], Features]
    grid: Callable[[Picture], Grid]
    """Function that returns an image's visual positions without computing its features."""
    caption: Callable[[Picture], Sequence[int]]
    """Function that returns the token ids that replace an image in view C."""

    def segment(self, chunk: Chunk, branch: Branch) -> Segment:
        """The chunk's tokens and images in the view of `branch`."""
        return Segment([self._part(part, branch) for part in chunk.parts], chunk.is_answer)

    def pieces(self, chunk: Chunk, branch: Branch, size: int) -> Iterator[Segment]:
        """The segment of `chunk` in pieces of at most `size` tokens; an image is never split."""
        for part in chunk.parts:
            piece = self._part(part, branch)
            if isinstance(piece, Sequence):
                starts = range(0, len(piece), size)
                cuts = (piece[start : start + size] for start in starts)
                yield from (Segment([cut], chunk.is_answer) for cut in cuts)
            else:
                yield Segment([piece])

    def _part(self, part: tuple[int, ...] | Picture, branch: Branch) -> Sequence[int] | Features:
        if not isinstance(part, Picture):
            return part
        if branch.letter == "T":
            return [self.newline_id]
        if branch.letter == "C":
            return self.caption(part)
        features = self.features(part)
        return features.pool(branch.positions) if branch.letter == "P" else features

    def length(self, chunks: Iterable[Chunk], branch: Branch) -> int:
        """Number of positions of `chunks` in the view of `branch`; computes no features."""
        return sum(self._part_length(part, branch) for chunk in chunks for part in chunk.parts)

    def _part_length(self, part: tuple[int, ...] | Picture, branch: Branch) -> int:
        if not isinstance(part, Picture):
            return len(part)
        if branch.letter in "MP":
            grid = self.grid(part)
            return (grid.pool(branch.positions) if branch.positions else grid).positions
        return len(self.caption(part)) if branch.letter == "C" else 1


def fit(
    drafting: Drafting, room: int, length: Callable[[Branch], int], draft: ModelConfig, rule: str
) -> tuple[Drafting, list[str]]:
    """Pool or drop the branches whose prompt is longer than `room` positions.

    rule: 'pool' shrinks the images of a branch to the largest size that fits, or drops the branch
    if none does; 'drop' drops it; 'run' keeps it, beyond the draft's positions. Returns the
    remaining branches, equal ones merged, and a note for each change. If none remains, T replaces
    them if it fits.
    """
    weights: dict[Branch, float] = {}
    notes = []
    for branch, weight in zip(drafting.branches, drafting.weights, strict=True):
        view = branch if rule == "run" else _fit_branch(branch, room, length, draft, rule)
        if view != branch:
            change = f"pooled to {view.positions} positions per image" if view else "left out"
            size = f"{length(branch)} prompt positions, the draft has room for {room}"
            notes.append(f"drafting {branch}: {size}: {change}")
        if view:
            weights[view] = weights.get(view, 0.0) + weight
    total = sum(weights.values())
    if not total:
        if TEXT in drafting.branches or length(TEXT) > room:
            return PLAIN, notes
        return Drafting((TEXT,), (1.0,)), [*notes, "no branch is left: T drafts in their place"]
    return Drafting(tuple(weights), tuple(weight / total for weight in weights.values())), notes


def _fit_branch(
    branch: Branch, room: int, length: Callable[[Branch], int], draft: ModelConfig, rule: str
) -> Branch | None:
    """The branch, or its largest pooled view that fits; None if there is none."""
    candidates = [branch]
    if rule == "pool" and branch.letter in "MP":
        largest = branch.positions or draft.image_tokens
        smaller = (size for size in pool_sizes(draft) if size < largest)
        candidates += [replace(branch, letter="P", positions=size) for size in smaller]
    return next((view for view in candidates if length(view) <= room), None)
