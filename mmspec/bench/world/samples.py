"""Samples and labelled pictures from a seed."""

import random
from collections.abc import Callable

from PIL import Image

from mmspec.bench.world.charts import bar_chart
from mmspec.bench.world.describing import Picture
from mmspec.bench.world.draw import Labels, label, render
from mmspec.bench.world.facts import Sample
from mmspec.bench.world.pairs import changed_pair
from mmspec.bench.world.scene import Scene, few_things, many_things
from mmspec.bench.world.split import KEY_SEPARATOR, Split, generator, within
from mmspec.bench.world.stories import five_frames
from mmspec.bench.world.tasks import TASK_SCRIPTS
from mmspec.bench.world.words import written_word

TASKS = tuple(TASK_SCRIPTS)


def sample(task: str, seed: int, *, split: Split, size: int = 144) -> Sample:
    """Make the sample of a task that belongs to a seed, with images of `size` x `size` pixels.

    The same in every process. No content of the split "held-out" is one of "train".
    """
    rng = generator(task, split, seed)
    script = TASK_SCRIPTS[task](rng, split)
    images = tuple(render(rng, p.marks(rng), p.background, size) for p in script.pictures)
    return Sample(task, images, script.turns, KEY_SEPARATOR.join(script.keys))


def labelled(
    seed: int, *, split: Split, size: int = 144, grid: int = 12
) -> tuple[Image.Image, Labels]:
    """Make a picture and, for each name in LABELS, its (grid, grid) integer labels.

    0 is nothing, except for "background", whose classes start at 0.
    """
    rng = generator("labelled", split, seed)
    picture = within(split, rng.choice(MAKERS), rng)
    marks = picture.marks(rng)
    return render(rng, marks, picture.background, size), label(marks, picture.background, grid)


def _frame(rng: random.Random) -> Scene:
    return rng.choice(five_frames(rng).scenes)


def _half(rng: random.Random) -> Scene:
    return rng.choice(changed_pair(rng).scenes)


MAKERS: tuple[Callable[[random.Random], Picture], ...] = (
    few_things,
    few_things,
    many_things,
    many_things,
    bar_chart,
    bar_chart,
    *[written_word] * 7,  # letters take the tower longest
    _frame,
    _half,
)
