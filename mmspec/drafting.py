"""The views M, T, C and P of one prompt, their weights, and what to do when one is too long.

Each drafting method shows the same draft model another prompt (IbED, sections 3.1 and 3.2):
M the images as the target sees them, T a newline in place of each, C `image: ` and a caption,
P the images with their features average-pooled.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mmspec.config import ModelConfig
from mmspec.conversation import Chunk
from mmspec.errors import UsageError, choice
from mmspec.images import Picture
from mmspec.seam import Features, Segment

LETTERS = {"M": "multimodal", "T": "text only", "C": "caption", "P": "pooled"}
OVERFLOWS = ("pool", "drop", "run")


@dataclass(frozen=True, slots=True)
class Branch:
    """One view: a letter and, for M and P, the visual positions of one image."""

    letter: str
    positions: int = 0

    def __str__(self) -> str:
        """The letter, and P's size."""
        return f"{self.letter}{self.positions}" if self.letter == "P" else self.letter


@dataclass(frozen=True, slots=True)
class Drafting:
    """The branches [R] of one batched draft and their weights [R], which sum to one."""

    branches: tuple[Branch, ...]
    weights: tuple[float, ...]
    name: str = ""
    """What it is called where that is not its letters."""

    @property
    def word(self) -> str:
        """The name, the letters, or 'none'."""
        return self.name or "".join(branch.letter for branch in self.branches) or "none"


TEXT = Branch("T")
PLAIN = Drafting((), ())
NGRAM = Drafting((TEXT,), (1.0,), "ngram")
"""What followed the last tokens earlier in the text view: no model drafts (`mmspec.ngram`)."""


UNLETTERED = {each.word: each for each in (PLAIN, NGRAM)}
"""Draftings that need no draft model, by their words."""


def parse_drafting(
    word: str, draft: ModelConfig, weights: Sequence[float] = (), pool: int | None = None
) -> Drafting:
    """Read a word such as 'MTC', its weights (equal by default) and the pooled size.

    'ngram' and 'none' are words of their own.

    Raises UsageError for an unknown or repeated letter, M or P with a draft that has no vision
    tower, a pooled size the grid cannot make, or weights that do not match the letters.
    """
    if word in UNLETTERED:
        return UNLETTERED[word]
    letters = read_letters(word)
    for letter in letters:
        _check_sight(letter, draft)
    branches = tuple(Branch(letter, _positions(letter, draft, pool)) for letter in letters)
    return Drafting(branches, normalised(weights, len(branches)))


def read_letters(word: str) -> list[str]:
    """Return the letters of a word, in capitals; UsageError for unknown, repeated or no letters."""
    letters = list(word.upper())
    for letter in letters:
        if letter not in LETTERS:
            raise choice("drafting letter", letter, [*LETTERS])
    if len(set(letters)) < len(letters) or not letters:
        raise UsageError(f"--drafting {word!r}: give each of the letters M, T, C, P at most once")
    return letters


def _check_sight(letter: str, draft: ModelConfig) -> None:
    if draft.vision is None and letter in "MP":
        raise UsageError(
            f"drafting {letter} ({LETTERS[letter]}) needs a draft that sees images; this one is "
            "text-only: use T or C"
        )


def _positions(letter: str, draft: ModelConfig, pool: int | None) -> int:
    if letter == "M":
        return draft.image_tokens
    if letter == "P":
        return pooled_positions(draft, pool)
    return 0


def pool_sizes(draft: ModelConfig) -> list[int]:
    """Squares that the draft's patch grid divides into, largest first, the whole grid left out."""
    grid = draft.vision.grid if draft.vision else 0
    return [side * side for side in range(grid - 1, 0, -1) if grid % side == 0]


def pooled_positions(draft: ModelConfig, pool: int | None) -> int:
    """The positions of a pooled image: `pool`, or the largest size up to a quarter of the grid."""
    sizes = pool_sizes(draft)
    if pool is None:
        return next(size for size in sizes if 4 * size <= draft.image_tokens)
    if pool not in sizes:
        nearest = min(sizes, key=lambda size: abs(size - pool))
        allowed = ", ".join(map(str, sizes))
        raise UsageError(f"--pool {pool}: the grid divides into {allowed} (nearest: {nearest})")
    return pool


def normalised(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """[count] weights that sum to one, equal by default; raises UsageError for what cannot."""
    weights = weights or [1.0] * count
    if len(weights) != count:
        raise UsageError(f"--weights: {len(weights)} given for {count} drafting letters")
    if min(weights) < 0 or not 0 < sum(weights) < float("inf"):
        raise UsageError(f"--weights {','.join(map(str, weights))}: give numbers >= 0, one above 0")
    return tuple(weight / sum(weights) for weight in weights)


@dataclass(frozen=True, slots=True)
class Views:
    """Turns a prompt chunk into the tokens that one model is shown."""

    image_token_id: int
    newline_id: int
    features: Callable[[Picture], Features]
    caption: Callable[[Picture], Sequence[int]]
    """Token ids that stand for the image in the C view."""

    def segment(self, chunk: Chunk, branch: Branch) -> Segment:
        """The chunk as `branch` sees it."""
        parts = [self._part(part, branch) for part in chunk.parts]
        tokens = [token for part in parts for token in part.tokens]
        return Segment(tokens, [each for part in parts for each in part.features])

    def pieces(self, chunk: Chunk, branch: Branch, size: int) -> Iterator[Segment]:
        """The same in runs of at most `size` tokens, an image always whole."""
        for part in chunk.parts:
            whole = self._part(part, branch)
            step = len(whole.tokens) if whole.features else size
            for start in range(0, len(whole.tokens), step or 1):
                yield Segment(whole.tokens[start : start + step], whole.features)

    def _part(self, part: tuple[int, ...] | Picture, branch: Branch) -> Segment:
        if not isinstance(part, Picture):
            return Segment(part)
        if branch.letter == "T":
            return Segment([self.newline_id])
        if branch.letter == "C":
            return Segment(self.caption(part))
        features = self.features(part)
        if features.positions != branch.positions:
            features = features.pooled(branch.positions)
        return Segment([self.image_token_id] * branch.positions, [features])

    def length(self, chunks: Iterable[Chunk], branch: Branch) -> int:
        """Tokens that `branch` sees of `chunks`, without computing any features."""
        return sum(self._part_length(part, branch) for chunk in chunks for part in chunk.parts)

    def _part_length(self, part: tuple[int, ...] | Picture, branch: Branch) -> int:
        if not isinstance(part, Picture):
            return len(part)
        if branch.letter == "C":
            return len(self.caption(part))
        return branch.positions or 1


def fit(
    drafting: Drafting, room: int, length: Callable[[Branch], int], draft: ModelConfig, rule: str
) -> tuple[Drafting, list[str]]:
    """Pool or drop the branches whose prompt is longer than `room` positions.

    rule: 'pool' shrinks an image branch to the largest size that fits, else drops it; 'drop'
    drops it; 'run' lets it run past the draft's positions.  Returns what is left, branches that
    became equal merged, and a line for each change; where nothing is left T, if it has room.
    """
    kept: dict[Branch, float] = {}
    notes = []
    for branch, weight in zip(drafting.branches, drafting.weights, strict=True):
        fitted = branch if rule == "run" else _fitted(branch, room, length, draft, rule)
        if fitted != branch:
            notes.append(_note(branch, fitted, length(branch), room))
        if fitted:
            kept[fitted] = kept.get(fitted, 0.0) + weight
    total = sum(kept.values())
    if not total:
        return _instead(drafting, room, length, notes)
    return Drafting(tuple(kept), tuple(weight / total for weight in kept.values())), notes


def _instead(
    drafting: Drafting, room: int, length: Callable[[Branch], int], notes: list[str]
) -> tuple[Drafting, list[str]]:
    """The view without images where all that were asked for are left out, else none."""
    if TEXT in drafting.branches or length(TEXT) > room:
        return PLAIN, notes
    return Drafting((TEXT,), (1.0,)), [*notes, "no branch is left: T drafts in their place"]


def _fitted(
    branch: Branch, room: int, length: Callable[[Branch], int], draft: ModelConfig, rule: str
) -> Branch | None:
    candidates = [branch]
    if rule == "pool" and branch.letter in "MP":
        smaller = (size for size in pool_sizes(draft) if size < branch.positions)
        candidates += [replace(branch, letter="P", positions=size) for size in smaller]
    return next((each for each in candidates if length(each) <= room), None)


def _note(branch: Branch, fitted: Branch | None, length: int, room: int) -> str:
    what = f"pooled to {fitted.positions} positions per image" if fitted else "left out"
    return f"drafting {branch}: {length} prompt positions, the draft has room for {room}: {what}"


@dataclass(frozen=True, slots=True)
class StaticWeights:
    """Fixed weights (IbED, section 3.1); a branch at the end of its positions no longer counts."""

    drafting: Drafting
    positions: int | None
    """Positions the draft was trained for; None lets branches run past them."""

    def weights(self, row_lengths: Sequence[int], gamma: int) -> Sequence[float]:
        """[R] the weights of the branches that still have `gamma` positions left."""
        weights = self.drafting.weights
        if self.positions is None or max(row_lengths) + gamma <= self.positions:
            return weights
        pairs = zip(weights, row_lengths, strict=True)
        left = [w if length + gamma <= self.positions else 0.0 for w, length in pairs]
        total = sum(left)
        return [w / total for w in left] if total else []
