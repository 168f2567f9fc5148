"""Prompts, pictures, sequences and rounds for the tests of one backend, given its models."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmspec.decoding.branch_sequence import BranchSequence
from mmspec.decoding.contract import Features, Segment
from mmspec.decoding.draft import Plan
from mmspec.decoding.loop import decode
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.view_drafter import ViewDrafter
from mmspec.drafters.views import Branch
from mmspec.prompt.chunks import Chunk
from support import factory

IMAGE = factory.IMAGE_TOKEN_ID
VOCABULARY = 320
NEWLINE = 13
TEXT = Segment([[1, 20, 21, 22, 40, 41, 42]])
DRAWN = Sampling(temperature=0.9)
WHOLE = Branch("M")


def pixels(size: int, count: int = 1) -> np.ndarray:
    """Random preprocessed images [count, 3, size, size]."""
    shape = (count, 3, size, size)
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def prompt(images: Sequence[Features] = ()) -> Segment:
    """Text, then each image followed by some text."""
    parts: list[Any] = [[1, 20, 21]]
    for place, image in enumerate(images):
        parts += [image, [NEWLINE, 30 + place]]
    return Segment([*parts, [40, 41, 42]])


def without_images(segment: Segment) -> Segment:
    """The same text with a newline in place of each image."""
    return Segment([p if isinstance(p, Sequence) else [NEWLINE] for p in segment.parts])


def segment_of(
    token_ids: Sequence[int], images: Sequence[Features] = (), image_id: int = IMAGE
) -> Segment:
    """A segment from ids that hold `image_id` at every position of an image."""
    parts: list[Sequence[int] | Features] = []
    rest = list(token_ids)
    for image in images:
        start = rest.index(image_id)
        parts += [rest[:start], image]
        rest = rest[start + image.positions :]
    return Segment([*parts, rest])


def flat(segment: Segment) -> list[int]:
    """The ids that `segment_of` takes."""
    return segment.token_ids(IMAGE)


def features(segment: Segment) -> list[Features]:
    """Its images, in order."""
    return [image for _, image in segment.images(0)]


def views_of(model: Any) -> list[Segment]:
    """One prompt of two images as M, T and P see it."""
    images = [model.encode(image) for image in pixels(32, 2)]
    whole = prompt(images)
    return [whole, without_images(whole), prompt([image.pool(4) for image in images])]


def target(model: Any, segment: Segment, sampling: Sampling = GREEDY) -> Any:
    """A target that holds `segment`."""
    sequence = model.open_target(sampling)
    sequence.extend(segment)
    return sequence


def beside(
    model: Any, head: Any, segment: Segment, sampling: Sampling = GREEDY, tree: Tree | None = None
) -> tuple[Any, Any]:
    """A target that holds `segment`, and a head's drafter beside it."""
    sequence = model.open_target(sampling)
    drafter = head.open_drafter(sequence, sampling, tree)
    sequence.extend(segment)
    drafter.extend([segment])
    return sequence, drafter


def verdict(target: Any, drafter: Any, gamma: int, nodes: int | None = None) -> Any:
    """The target's verdict on what a head drafts greedily, which reads the draft too."""
    return target.verify(drafter.draft(Plan(gamma, nodes), NO_NOISE), NO_NOISE)


def fed(model: Any, views: Any, chunks: Sequence[Chunk], branch: Branch = WHOLE) -> Any:
    """A plain sequence that holds what a branch sees of a prompt."""
    sequence = model.open_target(GREEDY)
    for chunk in chunks:
        sequence.extend(views.segment(chunk, branch))
    return sequence


def branches(
    model: Any,
    rows: Sequence[Segment],
    sampling: Sampling = GREEDY,
    tree: Tree | None = None,
    **options: Any,
) -> Any:
    """Branches of a draft model that hold `rows`."""
    sequences = model.open_branches(len(rows), VOCABULARY, sampling, tree, **options)
    sequences.extend(rows)
    return sequences


def draft(branches: Any, gamma: int, *weights: float, **plan: Any) -> Any:
    """A greedy draft of the branches' mixture, of equal weights by default."""
    framework = branches.framework
    with framework.inference():
        mixture = framework.floats(weights or even(branches))
    return branches.draft(Plan(gamma, **plan), mixture, NO_NOISE)


def even(branches: Any) -> list[float]:
    """Equal weights."""
    count = len(branches.row_lengths)
    return [1 / count] * count


def plain(target: Any, count: int) -> list[int]:
    """Greedy tokens of the target alone."""
    token_ids: list[int] = []
    for _ in range(count):
        token_ids += target.verify(None, NO_NOISE).best
        target.commit([], token_ids[-1])
    return token_ids


def continue_from(sequence: Any, model: Any, whole: Segment, cut: int) -> None:
    """A target that holds `whole`, rewound to `cut`, goes on as a fresh one that was."""
    fresh = target(model, whole)
    for each in (sequence, fresh):
        each.rewind(cut)
        each.extend(Segment([[30, 31]]))
    np.testing.assert_allclose(sequence.logits(), fresh.logits(), atol=1e-5)
    for each in (sequence, fresh):
        plain(each, 1)
    np.testing.assert_allclose(sequence.logits(), fresh.logits(), atol=1e-5)


def rounds(
    target: Any, drafter: Any, count: int, *weights: float, gamma: int = 4, seed: int = 0
) -> list[Any]:
    """The rounds of `count` tokens; branches draft with `weights`, equal ones by default."""
    if isinstance(drafter, BranchSequence):
        drafter = ViewDrafter(drafter, weights or even(drafter), None)
    length = FixedDraftLength(gamma)
    return list(decode(target, drafter, length, max_tokens=count, seed=seed))


def tokens(rounds: Sequence[Any]) -> list[int]:
    """The tokens of all rounds."""
    return [token for each in rounds for token in each.tokens]
